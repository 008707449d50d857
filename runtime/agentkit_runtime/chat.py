"""The chat layer's values: what an API or the in-process adapter asks for, and what it gets back.

`service.ChatService` turns a `ChatRequest` into tokens and a grammar, runs the engine, and
turns its output into `ChatEvent`s. HTTP front ends and the framework's local adapter speak only
this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from agentkit_runtime.checks import require_instance, require_text, require_texts, require_whole
from agentkit_runtime.types import (
    MAX_SPECULATE,
    Priority,
    RequestStats,
    SamplingParams,
    require_deadline,
)

Role = Literal["system", "user", "assistant", "tool"]

DEFAULT_TENANT = "default"
"""Whose a request is, and a hint, when nobody says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatToolCall:
    """A tool call in the history. `arguments` is the exact JSON text that was generated."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message. `tool_calls` are an assistant's only, `tool_call_id` a tool message's."""

    role: Role
    content: str = ""
    tool_calls: tuple[ChatToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str = ""
    """What an assistant thought before it answered, for templates that show it again."""
    token_ids: tuple[int, ...] = field(default=(), repr=False)
    """The ids that an assistant's message was generated as (`ChatFinished.token_ids`), where they
    are known. They are used only where they read exactly as the prompt's text does."""

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"role must be one of {get_args(Role)}, got {self.role!r}")
        require_text("content", self.content)
        require_text("reasoning", self.reasoning)
        require_instance("token_ids", self.token_ids, tuple)
        if self.token_ids and self.role != "assistant":
            raise ValueError(f"token_ids are an assistant's only, got some with role {self.role!r}")
        for token_id in self.token_ids:
            require_whole("each of token_ids", token_id, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTool:
    """A tool the model sees. The order of `parameters` keys is kept as given."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool choice that forces one tool."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | ToolName


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the model has read and said so far, as ids: the next prompt begins with exactly these.

    So nothing of it is rendered or tokenised again, whatever the template would say of it today.
    """

    ids: tuple[int, ...]
    n_messages: int
    """The first messages of the request that these ids stand for; the last is the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat completion request."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ChatTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    allowed_tools: frozenset[str] | None = None
    """A mask: the tools that may be called now. The prompt still shows all `tools`. None = all."""
    response_schema: Mapping[str, object] | None = None
    """JSON schema of the final answer. With tools, the model may also call one of them."""
    parallel_tool_calls: bool = False
    loosens_tools: bool = False
    """Whether calls are held to a looser schema where a tool's cannot be enforced. False: such a
    request is refused."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    tenant: str = DEFAULT_TENANT
    """Set by the server from the credentials, never from the request body."""
    request_id: str | None = None
    session: str | None = None
    """Which conversation of the tenant this belongs to: hints and pruning name it."""
    tags: frozenset[str] = frozenset()
    """Free labels, such as the agent's type; hints and pruning can name them."""
    priority: Priority = Priority.NORMAL
    deadline_s: float | None = None
    """Seconds after which the answer ends, finished or not; None waits for ever."""
    speculate: int = 0
    """Most tokens that are guessed ahead in a step; the answer is the same either way."""
    prompt_ids: tuple[int, ...] | None = None
    """The whole prompt as token ids, in the place of messages and tools: no template is used."""
    history: History | None = None
    """Ids of the first messages, where they are known."""
    separates_reasoning: bool = False
    """Whether thinking comes as `ReasoningDelta`; else it is content like any other text."""
    template_options: Mapping[str, bool | str] = field(default_factory=dict)
    """Variables of the chat template, among those in `text.template.TEMPLATE_OPTIONS`."""
    ignores_end: bool = False
    """Whether the answer goes on where the model would end it, up to `max_tokens`."""
    prefill: str = ""
    """How the answer begins. The model goes on from it, and what it generates is told."""

    def __post_init__(self) -> None:
        require_instance("messages", self.messages, tuple)
        for message in self.messages:
            require_instance("each of messages", message, ChatMessage)
        require_instance("tools", self.tools, tuple)
        for tool in self.tools:
            require_instance("each of tools", tool, ChatTool)
        if self.tool_choice not in ("auto", "none", "required"):
            require_instance(
                "tool_choice other than auto, none, required", self.tool_choice, ToolName
            )
        if self.allowed_tools is not None:
            require_texts("allowed_tools", self.allowed_tools, frozenset)
        require_instance("sampling", self.sampling, SamplingParams)
        require_text("prefill", self.prefill)
        require_text("tenant", self.tenant)
        if not self.tenant:  # that is nobody's name in the cache
            raise ValueError(f"tenant must not be empty; {DEFAULT_TENANT!r} is the default")
        for name in ("request_id", "session"):
            if getattr(self, name) is not None:
                require_text(name, getattr(self, name))
        require_texts("tags", self.tags, frozenset)
        require_instance("priority", self.priority, Priority)
        require_deadline(self.deadline_s)
        require_whole("speculate", self.speculate, least=0, most=MAX_SPECULATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLogprob:
    """A token and how likely the model found it."""

    token: bytes
    """Its bytes: perhaps only a part of a character."""
    logprob: float
    """Natural logarithm."""
    top: tuple[tuple[bytes, float], ...] = ()
    """The most likely tokens in its place, most likely first."""


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More visible answer text."""

    text: str
    logprobs: tuple[ChatLogprob, ...] = ()
    """Of the tokens generated since the last text, where the request asked for them. Text that
    becomes a tool call has none."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model thinks before it answers, without the tags around it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStart:
    """A tool call began; its name is known and final."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallArguments:
    """More argument text of call `index`. The concatenation is the exact generated JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFinished:
    """The last event."""

    reason: Literal["stop", "length", "tool_calls", "abort", "error"]
    stats: RequestStats
    error: str | None = None
    reasoning_tokens: int = 0
    """Generated tokens that are thinking, its tags included; 0 where it is not separated."""
    stop: str | None = None
    """The stop string that ended the answer."""
    late: bool = False
    """Whether the error is that the request's deadline passed."""
    revoked: bool = False
    """Whether the error is that the key it was asked with is let in no more."""
    token_ids: tuple[int, ...] = field(default=(), repr=False)
    """All generated ids, those of an end of turn or a stop string included."""


ChatEvent = ContentDelta | ReasoningDelta | ToolCallStart | ToolCallArguments | ChatFinished
