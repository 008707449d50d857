"""A request as caches see it: blocks with digests and lengths, marks, and who asks for what."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal

from agentkit.caching.messages import Block as Block
from agentkit.caching.messages import Mark as Mark
from agentkit.caching.messages import Message as Message
from agentkit.caching.messages import Messages as Messages
from agentkit.caching.messages import Role as Role
from agentkit.caching.messages import replace_mark, shows_image
from agentkit.caching.policy import BlockKind, Change, Speed, Terms, Ttl


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
    messages: Messages = field(default_factory=Messages)
    """Another sequence of messages is taken, too."""
    terms: Terms = field(default_factory=Terms)
    prewarm: bool = False
    """Fill the cache and answer nothing (`max_tokens: 0`, `prewarm`)."""
    stream: bool = False
    automatic: Mark | None = None
    """Anthropic's top-level `cache_control`."""
    openai: OpenAiOptions = field(default_factory=OpenAiOptions)
    cached_content: str | None = None
    """Name of a Gemini cached-content object that is this request's front."""
    n_front: int = field(init=False, repr=False, compare=False)
    """How many blocks lie before the messages."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_front", len(self.tools) + len(self.system))
        if not isinstance(self.messages, Messages):
            object.__setattr__(self, "messages", Messages(self.messages))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, in wire order."""
        return (*self.tools, *self.system, *self.messages.blocks)

    @property
    def kinds(self) -> frozenset[BlockKind]:
        """The kinds of its blocks; maybe others, too."""
        return self.messages.kinds.union(map(_KIND, self.tools), map(_KIND, self.system))

    @property
    def marked_places(self) -> list[tuple[int, Block]]:
        """The blocks that have a mark with their places among all blocks, in wire order."""
        front = (*self.tools, *self.system)
        found = [(place, block) for place, block in enumerate(front) if block.mark is not None]
        for number in self.messages.marked:
            start = self.n_front + self.messages.starts[number]
            for place, block in enumerate(self.messages[number].blocks, start):
                if block.mark is not None:
                    found.append((place, block))
        return found

    @property
    def marked(self) -> list[Block]:
        """The blocks that have a mark, in wire order."""
        return [block for _, block in self.marked_places]

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return self.n_front + len(self.messages.blocks)

    def tokens(self, n_blocks: int | None = None) -> int:
        """Return the tokens of the first blocks, or of all."""
        n_front = self.n_front
        front = (*self.tools, *self.system)[:n_blocks]
        n_tokens: int = sum(map(_N_TOKENS, front))
        if n_blocks is None:
            return n_tokens + self.messages.lengths[-1]
        n_more = min(max(0, n_blocks - n_front), len(self.messages.blocks))
        return n_tokens + self.messages.lengths[n_more]

    def blocks_within(self, n_tokens: int) -> int:
        """Return how many leading blocks have at most this many tokens together."""
        for place, block in enumerate((*self.tools, *self.system)):
            n_tokens -= block.n_tokens
            if n_tokens < 0:
                return place
        return self.n_front + bisect_right(self.messages.lengths, n_tokens) - 1

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
            messages=Messages(messages),
        )

    def with_marks(
        self,
        marks: Mapping[int, Mark],
        *,
        identity: Identity | None = None,
        openai: OpenAiOptions | None = None,
    ) -> CacheRequest:
        """Return the request with these marks, by block, and no others.

        Messages that have the same marks before and after are the same objects. `identity` and
        `openai` take the place of its own.
        """
        n_tools, n_front = len(self.tools), self.n_front
        tools, system = _marked(self.tools, marks, 0), _marked(self.system, marks, n_tools)
        starts = self.messages.starts
        touched = set(self.messages.marked)
        touched |= {
            bisect_right(starts, place - n_front) - 1
            for place in marks
            if n_front <= place < n_front + len(self.messages.blocks)
        }
        changed = {}
        for number in touched:
            message = self.messages[number]
            blocks = _marked(message.blocks, marks, n_front + starts[number])
            if blocks is not message.blocks:
                changed[number] = Message(message.role, blocks)
        messages = self.messages.with_marks_of(changed) if changed else self.messages
        return replace(
            self,
            tools=tools,
            system=system,
            messages=messages,
            identity=identity or self.identity,
            openai=openai or self.openai,
        )

    @property
    def shows_image(self) -> bool:
        """Whether there is an image in it."""
        return self.messages.shows_image or any(map(shows_image, (*self.tools, *self.system)))

    def value_of(self, change: Change) -> str:
        """Return the value whose change a cache may be keyed by, as text."""
        return _VALUES[change](self)

    @property
    def first_tools_later(self) -> bool:
        """Whether it shows tools, and all of them came in mid-conversation."""
        if any(tool.kind is not BlockKind.DEFERRED_TOOL for tool in self.tools):
            return False
        kind = BlockKind.TOOL_ADDITION
        return kind in self.messages.kinds and kind in map(_KIND, self.messages.blocks)

    @property
    def keyed_by(self) -> Hashable:
        """All that `value_of` depends on."""
        return self.identity, self.terms, self.shows_image, self.first_tools_later


_KIND = attrgetter("kind")
_N_TOKENS = attrgetter("n_tokens")


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
    Change.FIRST_TOOLS_LATER: lambda request: str(request.first_tools_later),
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


def _marked(blocks: tuple[Block, ...], marks: Mapping[int, Mark], first: int) -> tuple[Block, ...]:
    found: list[Block] | None = None
    for place, block in enumerate(blocks, first):
        mark = marks.get(place)
        if block.mark is not mark and block.mark != mark:
            found = found or list(blocks)
            found[place - first] = replace_mark(block, mark)
    return blocks if found is None else tuple(found)
