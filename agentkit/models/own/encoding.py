"""How requests lie on the runtime's wire, in this process (`local:`) and over HTTP (`runtime:`).

Most shared first:

    system   the organisation's rules; the runtime adds the pinned tools   shared by a whole team
    system   role, examples, knowledge                                     shared by an agent's runs
    ...      the history                                                   grows
    user     volatile text                                                 for this request only
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentkit.context import Tier
from agentkit.models.base import ModelRequest, Settings, ToolChoice, ToolName
from agentkit.models.hosted.begun import Begun
from agentkit.models.own.messages import front_messages, history_messages
from agentkit.toolset.provider_forms import schema_form
from agentkit_runtime import chat
from agentkit_runtime.chat import DEFAULT_TENANT
from agentkit_runtime.types import SamplingParams


class Encoder:
    """Encodes requests. A longer context is encoded from where a shorter one ended.

    Usable from several threads.
    """

    def __init__(self) -> None:
        self._begun = Begun[_Encoded]()

    def encode(self, request: ModelRequest) -> chat.ChatRequest:
        """Return the runtime's form of a request. Pure: equal requests give equal results.

        Raises:
            RequestRefused: the context has an image or a file.
        """
        encoded, allowed = self._encoded(request), request.allowed_tools
        volatile = request.context.volatile
        said = (chat.ChatMessage(role="user", content=volatile),) if volatile else ()
        return chat.ChatRequest(
            messages=encoded.messages + said,
            tools=encoded.tools,
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

    def _encoded(self, request: ModelRequest) -> _Encoded:
        key = (request.toolset.digest, *request.context.later_tools)
        known, behind = self._begun.longest(request.context)
        is_history = not behind or behind[0].tier is Tier.HISTORY  # the front is one piece
        if known is None or known.tools_key != key or not is_history:
            known, behind = _begin(request, key), request.context.segments
        added = tuple(message for segment in behind for message in history_messages(segment))
        encoded = replace(known, messages=known.messages + added)
        self._begun.keep(request.context, encoded)
        return encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    """A context without its volatile text."""

    tools_key: tuple[str, ...]
    """Names the tools."""
    tools: tuple[chat.ChatTool, ...]
    messages: tuple[chat.ChatMessage, ...]


def encode(request: ModelRequest) -> chat.ChatRequest:
    """Return the runtime's form of one request, as `Encoder.encode` does."""
    return Encoder().encode(request)


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


def _begin(request: ModelRequest, key: tuple[str, ...]) -> _Encoded:
    """Return the tools of a request and what its prompt begins with."""
    tools = tuple(
        chat.ChatTool(
            name=spec.name,
            description=spec.description,
            parameters=schema_form(spec, "local").parameters,
        )
        for spec in request.shown_tools
    )
    messages = tuple(front_messages(request.context.front, has_tools=bool(tools)))
    return _Encoded(tools_key=key, tools=tools, messages=messages)


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
