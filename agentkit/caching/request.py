"""A request as caches see it: blocks with digests and lengths, marks, and who asks for what."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice
from operator import attrgetter, is_
from typing import Literal

from agentkit.caching.policy import BlockKind, Change, Speed, Terms, Ttl


@dataclass(frozen=True, slots=True)
class Mark:
    """A cache mark on a block (`cache_control`, `prompt_cache_breakpoint`)."""

    ttl: Ttl | None = None
    """None: the provider's default, or what the request's options say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a request that is equal to another or not; simulated caches never look inside.

    Where two texts part in their middle, make two blocks of each.
    """

    kind: BlockKind = BlockKind.TEXT
    digest: bytes
    """Names the bytes: equal digests, equal bytes."""
    n_tokens: int
    mark: Mark | None = None
    group: str | None = None
    """Neighbours of one group are one position, and their marks act as one: the last."""
    shows_image: bool = False
    """Whether there is an image inside it, e.g. in a tool result."""

    def __post_init__(self) -> None:
        if self.n_tokens < 0:
            raise ValueError(f"n_tokens must be at least 0, got {self.n_tokens!r}")


class Role(enum.StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DEVELOPER = "developer"
    """A system or developer message behind the first other message."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: Role
    blocks: tuple[Block, ...]
    shows_image: bool = field(init=False, repr=False, compare=False)
    """Whether there is an image in it."""
    is_marked: bool = field(init=False, repr=False, compare=False)
    """Whether one of its blocks has a mark."""

    def __post_init__(self) -> None:
        # Found once: every request of a run shows the same messages again.
        object.__setattr__(self, "shows_image", any(map(_shows_image, self.blocks)))
        is_marked = any(block.mark is not None for block in self.blocks)
        object.__setattr__(self, "is_marked", is_marked)

    @property
    def is_tool_result(self) -> bool:
        """Whether it holds nothing but tool results, whichever role carries them."""
        if self.role is Role.TOOL:
            return True
        return bool(self.blocks) and all(
            block.kind in (BlockKind.TOOL_RESULT, BlockKind.PROGRAMMATIC_TOOL_RESULT)
            for block in self.blocks
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who asks. Which of these separates caches depends on the provider."""

    organization: str = "organization"
    workspace: str = "default"
    region: str = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Everything beside the blocks that may change what an entry is keyed by."""

    model: str
    cache_key: str | None = None
    """OpenAI's `prompt_cache_key`, DeepSeek's `user_id`."""
    service_tier: str | None = None
    tool_choice: Literal["auto", "none", "any"] | str = "auto"
    """Any other text is the name of a tool."""
    parallel_tools: bool = True
    thinking: str | None = None
    """Mode and budget as one text, e.g. `enabled:4096`; None is off or left out."""
    effort: str | None = None
    verbosity: str | None = None
    output_format: str | None = None
    """Digest or name of the answer's schema."""
    context_management: str | None = None
    web_tools: bool = False
    citations: bool = False
    betas: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiOptions:
    """What only OpenAI requests have."""

    api: Literal["responses", "chat"] = "responses"
    mode: Literal["implicit", "explicit"] = "implicit"
    ttl: Ttl | None = None
    """For all breakpoints without their own; None is the default."""
    retention: Literal["in_memory", "24h"] | None = None
    """GPT-5.5 and earlier; None is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest:
    """One request to a provider, in wire order: tools, system, messages."""

    identity: Identity
    tenant: Tenant = field(default_factory=Tenant)
    tools: tuple[Block, ...] = ()
    system: tuple[Block, ...] = ()
    """System text; at OpenAI instructions and the developer messages before all others."""
    messages: tuple[Message, ...] = ()
    terms: Terms = field(default_factory=Terms)
    prewarm: bool = False
    """Fill the cache and answer nothing (`max_tokens: 0`, `prewarm`)."""
    stream: bool = False
    automatic: Mark | None = None
    """Anthropic's top-level `cache_control`."""
    openai: OpenAiOptions = field(default_factory=OpenAiOptions)
    cached_content: str | None = None
    """Name of a Gemini cached-content object that is this request's front."""

    @property
    def blocks(self) -> Iterator[Block]:
        """All blocks, in wire order."""
        return chain(self.tools, self.system, *map(_BLOCKS, self.messages))

    @property
    def marked(self) -> list[Block]:
        """The blocks that have a mark, in wire order."""
        with_mark = (message.blocks for message in self.messages if message.is_marked)
        blocks = chain(self.tools, self.system, *with_mark)
        return [block for block in blocks if block.mark is not None]

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        in_messages = sum(map(len, map(_BLOCKS, self.messages)))
        return len(self.tools) + len(self.system) + in_messages

    def tokens(self, n_blocks: int | None = None) -> int:
        """Return the tokens of the first blocks, or of all."""
        return sum(map(_N_TOKENS, islice(self.blocks, n_blocks)))

    def with_blocks(self, blocks: Sequence[Block]) -> CacheRequest:
        """Return the request with other blocks, one for each of `blocks`, at the same places."""
        n_tools, n_system = len(self.tools), len(self.system)
        at = n_tools + n_system
        messages: list[Message] = []
        for message in self.messages:
            end = at + len(message.blocks)
            messages.append(replace(message, blocks=tuple(blocks[at:end])))
            at = end
        return replace(
            self,
            tools=tuple(blocks[:n_tools]),
            system=tuple(blocks[n_tools : n_tools + n_system]),
            messages=tuple(messages),
        )

    def with_marks(self, marks: Mapping[int, Mark]) -> CacheRequest:
        """Return the request with these marks, by block, and no others.

        Messages that have the same marks before and after are the same objects.
        """
        n_tools = len(self.tools)
        tools, system = _marked(self.tools, marks, 0), _marked(self.system, marks, n_tools)
        lengths = map(len, map(_BLOCKS, self.messages))
        starts = list(accumulate(lengths, initial=n_tools + len(self.system)))
        touched = {number for number, each in enumerate(self.messages) if each.is_marked}
        touched |= {bisect_right(starts, place) - 1 for place in marks if place >= starts[0]}
        messages = list(self.messages)
        for number in touched:
            if number < len(messages):
                blocks = _marked(messages[number].blocks, marks, starts[number])
                messages[number] = Message(messages[number].role, blocks)
        return replace(self, tools=tools, system=system, messages=tuple(messages))

    @property
    def shows_image(self) -> bool:
        """Whether there is an image in it."""
        front = (*self.tools, *self.system)
        return any(map(_HAS_IMAGE, self.messages)) or any(map(_shows_image, front))

    def value_of(self, change: Change) -> str:
        """Return the value whose change a cache may be keyed by, as text."""
        return _VALUES[change](self)

    @property
    def keyed_by(self) -> Hashable:
        """All that `value_of` depends on."""
        return self.identity, self.terms, self.shows_image


def _service_tier(request: CacheRequest) -> str:
    fast = request.terms.speed is Speed.FAST
    return request.identity.service_tier or ("fast" if fast else "default")


def _field(change: Change) -> Callable[[CacheRequest], str]:
    value = attrgetter(change.value)
    return lambda request: repr(value(request.identity))


_VALUES: Mapping[Change, Callable[[CacheRequest], str]] = {
    Change.MODEL: lambda request: request.identity.model,
    Change.SPEED: lambda request: request.terms.speed.value,
    Change.SERVICE_TIER: _service_tier,
    Change.CACHE_KEY: _field(Change.CACHE_KEY),
    Change.TOOL_CHOICE: lambda request: request.identity.tool_choice,
    Change.IMAGES: lambda request: str(request.shows_image),
    Change.BETAS: lambda request: repr(sorted(request.identity.betas)),
    **{
        change: _field(change)
        for change in (
            Change.WEB_TOOLS,
            Change.CITATIONS,
            Change.PARALLEL_TOOLS,
            Change.THINKING,
            Change.EFFORT,
            Change.VERBOSITY,
            Change.OUTPUT_FORMAT,
            Change.CONTEXT_MANAGEMENT,
        )
    },
}
assert len(_VALUES) == len(Change), "every change has a value"


_BLOCKS = attrgetter("blocks")
_HAS_IMAGE = attrgetter("shows_image")
_N_TOKENS = attrgetter("n_tokens")
# A request is walked many times; these do it without a step of Python for each block.


def _shows_image(block: Block) -> bool:
    return block.kind is BlockKind.IMAGE or block.shows_image


def _marked(blocks: tuple[Block, ...], marks: Mapping[int, Mark], first: int) -> tuple[Block, ...]:
    found = tuple(
        [
            block if block.mark == (mark := marks.get(place)) else replace(block, mark=mark)
            for place, block in enumerate(blocks, first)
        ]
    )
    return blocks if all(map(is_, found, blocks)) else found
