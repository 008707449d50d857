"""Local models: our own runtime, in this process. The only file that imports `agentkit_runtime`.

How a request lies on the runtime's wire, most shared first:

    system   the organisation's rules; the runtime adds the pinned tools   shared by a whole team
    system   role, examples, knowledge                                     shared by an agent's runs
    ...      the history                                                   grows
    user     volatile text                                                 for this request only
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, assert_never, cast

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
from agentkit.errors import ConfigurationError, MissingExtra, ModelError, RequestRefused
from agentkit.events import (
    ModelEnd,
    ModelEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
)
from agentkit.models.base import ModelRequest, Settings, ToolChoice, ToolName
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.waits import ToolWaits
from agentkit.toolset.provider_forms import schema_form
from agentkit.usage import Timing, Usage
from agentkit_runtime import chat
from agentkit_runtime.errors import RequestRejected, RuntimeFault
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.types import Priority, RequestStats, SamplingParams

if TYPE_CHECKING:
    from agentkit.caching.verdict import Verdict
    from agentkit_runtime.local import LocalRuntime


_DEFAULT_TENANT = "default"
_SUBAGENTS_WITHIN_S = 60.0
"""How long the fronts of subagents are kept for a turn that may call them. Turns seldom last
longer, and each says it again."""


class LocalModel:
    """A model that our runtime runs in this process.

    All agents of the process that name the same model share one engine, and so one radix tree. The
    engine is loaded at the first request (a bundled model is fetched at its first use on a machine)
    and closed when the process ends. Usable from several event loops and threads.

    Args:
        spec: `smollm2` (bundled), a path, or `org/name` (hub id).
        registry: where the engines live; the process's own by default.
        options: passed on to the runtime's `LocalRuntime.load`, e.g. `threads=2`.

    Raises:
        ConfigurationError: there is no such option. Their values are checked when it is loaded.
    """

    def __init__(
        self,
        spec: str,
        *,
        registry: EngineRegistry[LocalRuntime] | None = None,
        **options: str | int | float | bool | None,
    ) -> None:
        _check_options(spec, options)
        self._spec = spec
        self._options = options
        self._registry = registry or engine_registry()
        self._waits = ToolWaits()

    @property
    def label(self) -> str:
        """The model string."""
        return f"local:{self._spec}"

    @property
    def siblings_start_together(self) -> bool:
        """True: the runtime's scheduler computes a shared cold prefix once."""
        return True

    def shows(self, block: Image | File) -> bool:
        """False: the bundled runtime reads text only."""
        return False

    @property
    def costs_nothing(self) -> bool:
        """True: this machine computes it."""
        return True

    @property
    def context_tokens(self) -> int | None:
        """The most tokens of a prompt and its answer; None until the engine is loaded."""
        runtime = self._registry.ready(self._spec)
        return None if runtime is None else runtime.context_tokens

    @asynccontextmanager
    async def kept_alive(
        self, request: ModelRequest, on_ping: Callable[[Usage, Timing, Verdict], None]
    ) -> AsyncIterator[None]:
        """Tell the runtime that this run waits for its tools and will then go on.

        Its prefix is then kept before ordinary ones. There is nothing to pay and no ping.
        """
        loop, tenant, agent = asyncio.get_running_loop(), _tenant(request), request.agent
        expected_s, begun_s = self._waits.expected_s(tenant, agent), loop.time()
        self._advise(SessionWaits(_session(request), expected_s, tenant))
        try:
            yield
        finally:
            self._waits.took(tenant, agent, loop.time() - begun_s)

    def likely_next(self, agents: frozenset[str], tenant: str) -> None:
        """Keep what runs of these agents begin with; see `TakesHints`."""
        self._advise(LikelyNext(agents, _SUBAGENTS_WITHIN_S, tenant or _DEFAULT_TENANT))

    def conversation_ended(self, request: ModelRequest) -> None:
        """Let its tail be the first that is evicted; see `TakesHints`."""
        self._advise(SessionDone(_session(request), _tenant(request)))

    async def warm(self, request: ModelRequest, *, keep_s: float | None) -> Usage:
        """Compute a front when nothing else waits, and pin it if it is to be kept; see `Warms`."""
        # Without a session: a front is its agent's, which its tag says, and no conversation's.
        front = replace(encode(request), session=None, priority=Priority.BATCH)
        with self._failures():
            runtime = await self._registry.get(self._spec, self._options)
            pin = keep_s is not None
            warmed = await runtime.prefixes.prewarm(
                front, pin=pin, ttl_s=keep_s, name=request.agent if pin else None
            )
        return Usage(
            input_tokens=warmed.tokens,
            cache_read_tokens=warmed.cached_tokens,
            cache_write_tokens=warmed.tokens - warmed.cached_tokens,
            output_tokens=0,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the runtime; see `Model.stream`."""
        wanted = encode(request)
        try:
            with self._failures():
                runtime = await self._registry.get(self._spec, self._options)
                async with aclosing(runtime.chat(wanted)) as events:
                    async for event in events:
                        for translated in _translate(event):
                            yield translated
        finally:
            if not request.reuse.again:
                self.conversation_ended(request)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Say the runtime's errors in the framework's words."""
        try:
            yield
        except RequestRejected as error:
            raise RequestRefused(f"{self.label} refused the request: {error}") from error
        except RuntimeFault as error:
            raise ModelError(f"{self.label} failed: {error}") from error

    def _advise(self, hint: Hint) -> None:
        """Hand a hint over without waiting for it; without an engine it is worth nothing."""
        runtime = self._registry.ready(self._spec)
        if runtime is not None:
            runtime.advise(hint)

    def __repr__(self) -> str:
        return f"LocalModel({self._spec!r})"


def engine_registry() -> EngineRegistry[LocalRuntime]:
    """Return the engines of this process.

    This is process-wide state on purpose: an engine is a resource of the machine like a connection
    to it, and only when all agents find the same one do they share its cache.
    """
    return _REGISTRY


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
        tenant=_tenant(request),
        session=_session(request),
        tags=frozenset((request.agent,)),
    )


def _tenant(request: ModelRequest) -> str:
    return request.tenant or _DEFAULT_TENANT


def _session(request: ModelRequest) -> str:
    """Which tail of the cache the request works on: a run's own, and a new one in each epoch.

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
    lines = [first, *(asdict(message) for message in messages)]
    if messages and messages[0].role == "system":
        # The runtime puts the tools behind the text of the first system message.
        lines[:2] = [{**lines[1], **first}]
    return b"".join(_line(line) for line in lines)


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
            yield chat.ChatMessage(role="assistant", content=message.text, tool_calls=calls)
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


def _translate(event: chat.ChatEvent) -> Iterator[ModelEvent]:
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
                    f"the local engine ended the request: {event.error or event.reason}"
                )
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


def _check_options(spec: str, options: Iterable[str]) -> None:
    from agentkit_runtime.local import LocalRuntime

    known = [name for name in inspect.signature(LocalRuntime.load).parameters if name != "spec"]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {known!r}"
            raise ConfigurationError(f"local:{spec} has no option {name!r}; {hint}")


def _load(spec: str, options: Options) -> LocalRuntime:
    try:
        from agentkit_runtime.local import LocalRuntime
    except ImportError as error:
        if (error.name or "").startswith("agentkit"):
            raise  # a part of ours is broken, and nothing that the user installs will help
        raise MissingExtra(
            f"a local model needs the runtime, which is not installed ({error}); "
            'run: pip install "agentkit-radix[runtime]"'
        ) from error
    # The runtime checks its own options.
    return LocalRuntime.load(spec, **cast("dict[str, Any]", options))


_REGISTRY: EngineRegistry[LocalRuntime] = EngineRegistry(_load)
