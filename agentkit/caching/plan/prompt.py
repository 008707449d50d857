"""A draft's prompt as marks see it: rendered blocks, prefix lengths, and where a mark may stand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentkit.caching.plan.draft import Draft, LiveEntry, SharedBy, SharedPrefix, Written
from agentkit.caching.request import Block, CacheRequest, Mark, Role
from agentkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Parallel sequences, one item for each rendered block."""

    index: Sequence[int]
    """Place of the block in `CacheRequest.blocks`."""
    blocks: Sequence[Block]
    roles: Sequence[Role | None]
    """None in tools and system."""
    tokens: Sequence[int]
    """Length of the prefix that ends with the block."""
    markable: Sequence[bool]
    """Whether the API takes a mark on the block."""
    anchors: Sequence[int | None]
    """The last block up to here where the planner may put a mark that acts."""
    entries: Sequence[LiveEntry | None]
    """The entry that ends with the block, readable or coming."""
    readable: Sequence[bool]
    """Whether that entry can be read now."""

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return self.tokens[-1] if self.tokens else 0

    @property
    def n_read(self) -> int | None:
        """The last block whose entry can be read and marked; None if there is none."""
        for index in range(len(self.blocks) - 1, -1, -1):
            if self.readable[index] and self.anchors[index] == index:
                return index
        return None

    def length(self, index: int | None) -> int:
        """Return the tokens of the prefix that ends with a block; None is the empty prefix."""
        return 0 if index is None else self.tokens[index]

    def shown_before(self, end: int) -> int:
        """Return how many rendered blocks are among the request's first `end` blocks."""
        return bisect_left(self.index, end)

    def anchor(self, end: int) -> int | None:
        """Return where the mark for a prefix of `end` blocks of the request stands.

        It walks back over blocks that take no mark. None: nowhere, or the prefix is too short.
        """
        shown = self.shown_before(end)
        return self.anchors[shown - 1] if shown else None


def prompt_of(
    draft: Draft,
    written: Written,
    *,
    now_s: float,
    minimum: int,
    can_mark: Callable[[Block, Role | None], bool],
    shown: Sequence[int] | None = None,
) -> Prompt:
    """Return the prompt. `shown` are the blocks that are rendered; None is all."""
    blocks = list(draft.request.blocks)
    roles = roles_of(draft.request)
    first_volatile = len(blocks) - draft.n_volatile
    shown = range(len(blocks)) if shown is None else shown
    tokens: list[int] = []
    markable: list[bool] = []
    anchors: list[int | None] = []
    total, anchor = 0, None
    for place, index in enumerate(shown):
        total += blocks[index].n_tokens
        takes = can_mark(blocks[index], roles[index])
        if takes and total >= minimum and index < first_volatile:
            anchor = place
        tokens.append(total)
        markable.append(takes)
        anchors.append(anchor)
    known = (*written.entries, *[None] * (len(blocks) - len(written.entries)))
    entries = [known[index] for index in shown]
    return Prompt(
        index=shown,
        blocks=[blocks[index] for index in shown],
        roles=[roles[index] for index in shown],
        tokens=tokens,
        markable=markable,
        anchors=anchors,
        entries=entries,
        readable=[
            entry is not None and entry.readable_s <= now_s < entry.expires_s for entry in entries
        ],
    )


def roles_of(request: CacheRequest) -> list[Role | None]:
    """Return for each block the role of its message; None in tools and system."""
    roles: list[Role | None] = [None] * (len(request.tools) + len(request.system))
    for message in request.messages:
        roles.extend([message.role] * len(message.blocks))
    return roles


def user_marks(
    draft: Draft, prompt: Prompt, what: str, *, ignored: Iterable[int] = ()
) -> dict[int, Mark]:
    """Return the marks that the user set, by rendered block, but those on `ignored` blocks.

    They are never moved.

    Raises:
        ConfigurationError: one is on a block that takes none; `what` is the API's name of a mark.
    """
    skip = set(ignored)
    places = {index: place for place, index in enumerate(prompt.index)}
    found: dict[int, Mark] = {}
    for index, block in enumerate(draft.request.blocks):
        if block.mark is None:
            continue
        place = places.get(index)
        if place in skip:
            continue
        if place is None or not prompt.markable[place]:
            kind = "empty text" if not block.n_tokens else block.kind.value
            raise ConfigurationError(
                f"block {index} of the request is {kind!r}, which takes no {what}; set it on the "
                "block before, or leave it to the planner"
            )
        found[place] = block.mark
    return found


def run_ends(draft: Draft) -> tuple[list[SharedPrefix], SharedPrefix | None]:
    """Return the ends of the run's earlier requests, and its own end if it has one."""
    ends = [prefix for prefix in draft.shared if prefix.by is SharedBy.RUN]
    return (ends[:-1], ends[-1]) if ends else ([], None)


def no_marks(draft: Draft, why: str) -> None:
    """Refuse marks that the user set where there are none.

    Raises:
        ConfigurationError: there are some.
    """
    marked = [index for index, block in enumerate(draft.request.blocks) if block.mark is not None]
    if marked:
        where = ", ".join(map(str, marked))
        raise ConfigurationError(
            f"blocks {where} of the request are marked, but {why}; take it away"
        )


def front_is_readable(draft: Draft, prompt: Prompt, minimum: int) -> bool:
    """Whether others find the longest shared front already, or never will: it is too short."""
    ends = [shared.end for shared in draft.shared if shared.by is not SharedBy.RUN and shared.reads]
    shown = prompt.shown_before(ends[-1]) if ends else 0
    if not shown or prompt.tokens[shown - 1] < max(1, minimum):
        return True
    return prompt.readable[shown - 1]
