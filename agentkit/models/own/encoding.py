"""How requests lie on the runtime's wire, in this process (`local:`) and over HTTP (`runtime:`).

Most shared first:

    system   the organisation's rules; the runtime adds the pinned tools   shared by a whole team
    system   role, examples, knowledge                                     shared by an agent's runs
    ...      the history                                                   grows
    user     volatile text                                                 for this request only
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, assert_never

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Message,
    Text,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
)
from agentkit.context import Context, Document, SystemPart, SystemText
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import (
    ModelEnd,
    ModelEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
    VendorItemEvent,
)
from agentkit.models.base import ModelRequest, Settings, ToolChoice, ToolName
from agentkit.models.own.reply_ids import ids_json, ids_of
from agentkit.toolset.provider_forms import schema_form
from agentkit.usage import Timing, Usage
from agentkit_runtime import chat
from agentkit_runtime.chat import DEFAULT_TENANT
from agentkit_runtime.types import RequestStats, SamplingParams


def encode(request: ModelRequest) -> chat.ChatRequest:
    """Return the runtime's form of a request. Pure: equal requests give equal results."""
    allowed = request.allowed_tools
    return chat.ChatRequest(
        messages=tuple(_messages(request)),
        tools=tuple(
            chat.ChatTool(
                name=spec.name,
                description=spec.description,
                parameters=schema_form(spec, "local").parameters,
            )
            for spec in request.shown_tools
        ),
        tool_choice="none" if allowed == frozenset() else _choice(request.tool_choice),
        allowed_tools=allowed,
        loosens_tools=True,  # tools may be other people's
        response_schema=request.output_schema,
        sampling=_sampling(request.settings),
        request_id=request.request_id,
        tenant=tenant_of(request),
        session=session_of(request),
        tags=frozenset((request.agent,)),
    )


def tenant_of(request: ModelRequest) -> str:
    """Return whose request it is."""
    return request.tenant or DEFAULT_TENANT


def session_of(request: ModelRequest) -> str:
    """Return which tail of the cache the request works on: a run's own, a new one in each epoch.

    A session holds the runs of subagents, too: a root that waits for them must not seem to be back
    when one of them asks.
    """
    session = request.session or request.run_id
    own = session if session == request.run_id else f"{session}/{request.run_id}"
    return f"{own}#{request.epoch}" if request.epoch else own


def wire(request: ModelRequest) -> bytes:
    """Return what the runtime renders, in its order, as JSON Lines: rules and tools, then messages.

    Volatile text and what steers only this answer are left out, so that the wire of a later request
    of a run starts with the bytes of an earlier one.
    """
    encoded = encode(request)
    n_volatile = 1 if request.context.volatile else 0
    messages = encoded.messages[: len(encoded.messages) - n_volatile]
    first = {"tools": [asdict(tool) for tool in encoded.tools]}
    lines = [first, *map(_shown, messages)]
    if messages and messages[0].role == "system":
        # The runtime puts the tools behind the text of the first system message.
        lines[:2] = [{**lines[1], **first}]
    return b"".join(_line(line) for line in lines)


def _shown(message: chat.ChatMessage) -> dict[str, Any]:
    """What of a message is rendered. Its ids say nothing that its text does not say."""
    shown = asdict(message)
    del shown["token_ids"]
    return shown


def _line(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _messages(request: ModelRequest) -> Iterator[chat.ChatMessage]:
    context, front = request.context, request.context.front
    rules = _system_text(front, SystemPart.RULES)
    if rules or request.shown_tools:
        # Also without rules: the runtime puts the tools into the first system message, and text of
        # one agent before them would keep its team from sharing them.
        yield chat.ChatMessage(role="system", content=rules)
    own = [_system_text(front, SystemPart.ROLE), _system_text(front, SystemPart.EXAMPLES)]
    documents = [_document(item.content) for item in front if isinstance(item.content, Document)]
    text = "\n\n".join(part for part in (*own, *documents) if part)
    if text:
        yield chat.ChatMessage(role="system", content=text)
    for message in context.messages:
        yield from _history(message)
    if context.volatile:
        yield chat.ChatMessage(role="user", content=context.volatile)


def _system_text(front: Context, part: SystemPart) -> str:
    contents = (segment.content for segment in front)
    return "".join(
        content.text
        for content in contents
        if isinstance(content, SystemText) and content.part is part
    )


def _document(document: Document) -> str:
    uri = json.dumps(document.uri, ensure_ascii=False)
    return f"<document uri={uri}>\n{document.text}\n</document>"


def _history(message: Message) -> Iterator[chat.ChatMessage]:
    match message:
        case UserMessage():
            _check_readable(block for block in message.blocks if not isinstance(block, Text))
            yield chat.ChatMessage(role="user", content=message.text)
        case AssistantMessage():
            # Thinking of other vendors' models stays behind: ours would read it as an answer.
            calls = tuple(
                chat.ChatToolCall(id=call.id, name=call.name, arguments=call.arguments)
                for call in message.calls
            )
            yield chat.ChatMessage(
                role="assistant",
                content=message.text,
                tool_calls=calls,
                token_ids=ids_of(message),
            )
        case ToolMessage():
            for result in message.results:
                _check_readable(result.attachments)
                yield chat.ChatMessage(
                    role="tool", content=_result_text(result), tool_call_id=result.call_id
                )
        case ToolsMessage():
            return  # they are the last of the request's tools
        case _:
            assert_never(message)


def _check_readable(attachments: Iterable[Image | File]) -> None:
    for attachment in attachments:
        raise RequestRefused(
            f"the bundled runtime reads text only, but the context has a {attachment.kind} "
            f"({attachment.media_type}); describe it as text, or use a model that can see"
        )


def _result_text(result: ToolResult) -> str:
    # The runtime's messages have no error flag, so the text must say it.
    return f"Error: {result.content}" if result.is_error else result.content


def _choice(choice: ToolChoice) -> chat.ToolChoice:
    return chat.ToolName(choice.name) if isinstance(choice, ToolName) else choice


def _sampling(settings: Settings) -> SamplingParams:
    return SamplingParams(
        temperature=settings.temperature or 0.0,
        top_k=settings.top_k or 0,
        top_p=1.0 if settings.top_p is None else settings.top_p,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
        stop=settings.stop,
    )


def translate(event: chat.ChatEvent, label: str, *, remote: bool) -> Iterator[ModelEvent]:
    """Return what an event of the runtime says in the framework's words.

    Of a `remote` server the ids of an answer are kept with its message, for the requests that
    follow; and an answer that it gave up (it stops, for example) is worth asking for again.

    Raises:
        ModelError: the event says that the request failed.
    """
    match event:
        case chat.ContentDelta():
            yield TextDelta(event.text)
        case chat.ReasoningDelta():
            pass  # not asked for: thinking is told as text here
        case chat.ToolCallStart():
            yield ToolCallStarted(index=event.index, id=event.id, name=event.name)
        case chat.ToolCallArguments():
            yield ToolCallArguments(index=event.index, text=event.text)
        case chat.ChatFinished():
            yield _usage(event.stats)
            if event.reason == "abort" or event.reason == "error":
                raise ModelError(
                    f"the engine of {label} ended the request: {event.error or event.reason}",
                    retryable=remote and event.reason == "abort",
                )
            if remote and event.token_ids:
                yield VendorItemEvent(source=label, data=ids_json(event.token_ids))
            yield ModelEnd(event.reason)
        case _:
            assert_never(event)


def _usage(stats: RequestStats) -> UsageEvent:
    return UsageEvent(
        usage=Usage(
            input_tokens=stats.prompt_tokens,
            cache_read_tokens=stats.cached_tokens,
            # The runtime keeps whatever it computes in its tree.
            cache_write_tokens=stats.prompt_tokens - stats.cached_tokens,
            output_tokens=stats.completion_tokens,
        ),
        timing=Timing(ttft_s=stats.ttft_s, total_s=stats.total_s),
    )
