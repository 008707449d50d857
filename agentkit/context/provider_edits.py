"""When a provider's clearing of old tool results is better than our summary, by price.

Clearing loses the cache behind the first result that it leaves out, and the results themselves; but
nobody has to write a summary, and what the model thought stays. A provider's own *summary* costs
what ours costs, and cannot be read or taken elsewhere, so it is never chosen by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from agentkit.blocks import Message, ToolMessage
from agentkit.caching.policy.edits import ContextEdit, EditKind
from agentkit.caching.tokens import data_tokens
from agentkit.context.compact import Summarise
from agentkit.context.context import Context
from agentkit.context.prices import Prices
from agentkit.context.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCompaction:
    """Settings for a provider's own way, to be sent from now on with every request.

    Turning it on is a change of settings that some caches are keyed by, so it is done once.
    """

    edit: ContextEdit
    trigger_tokens: int
    clear_at_least: int | None
    """Tokens below which nothing is cleared, so that each clearing pays; None: no such setting."""
    keep_tool_uses: int
    """How many of the latest tool uses are never cleared."""
    exclude_tools: tuple[str, ...]
    """Tools whose results are never cleared, sorted."""
    saved: Decimal | None
    """USD over the requests that follow, against going on as it is; None: unknown price."""
    reason: str


def better_than(
    own: Summarise,
    edits: Collection[ContextEdit],
    prices: Prices,
    *,
    turns_left: int,
    trigger_tokens: int,
    keep_tool_uses: int = 3,
    exclude_tools: Collection[str] = (),
) -> ProviderCompaction | None:
    """Return the provider's settings, if they cost less over what follows than our summary. Pure.

    Args:
        own: what we would do, by `next_step`.
        edits: what the provider has, see `agentkit.caching.policy.edits.context_edits`.
        prices: of the model.
        turns_left: requests expected after it.
        trigger_tokens: how long the conversation may be; clearing that leaves more is no choice.
        keep_tool_uses: latest tool results that are kept.
        exclude_tools: tools whose results must stay.
    """
    cut = _Cut(own, keep_tool_uses, frozenset(exclude_tools))
    clearing = [edit for edit in edits if edit.kind is EditKind.CLEAR_TOOL_RESULTS]
    if not clearing or not cut.cleared or own.n_before - cut.cleared > trigger_tokens:
        return None
    cost = cut.cost_of_clearing(prices, turns_left)
    if cost >= cut.cost_of_ours(prices, turns_left):
        return None
    edit = clearing[0]
    saved = turns_left * prices.request(read=own.n_before) - cost
    return ProviderCompaction(
        edit=edit,
        trigger_tokens=trigger_tokens,
        clear_at_least=cut.clear_at_least(prices, turns_left) if edit.has_clear_at_least else None,
        keep_tool_uses=keep_tool_uses,
        exclude_tools=tuple(sorted(exclude_tools)),
        saved=saved if prices.is_known else None,
        reason=(
            f"{cut.cleared} tokens of old tool results are left out, and {cut.tail} behind the "
            "first of them are written again; nobody writes a summary"
        ),
    )


class _Cut:
    """Where the provider would cut the conversation, and what each way costs from there on."""

    def __init__(self, own: Summarise, keep_tool_uses: int, excluded: frozenset[str]) -> None:
        self._own = own
        messages = own.context.messages
        scale = Decimal(own.n_before) / max(1, _tokens(own.context))
        clearable = [
            (place, result.content)
            for place, message in enumerate(messages)
            if isinstance(message, ToolMessage)
            for result in message.results
            if result.name not in excluded
        ]
        clearable = clearable[: max(0, len(clearable) - keep_tool_uses)]
        cleared = sum(data_tokens(content.encode()) for _, content in clearable)
        self.cleared = int(cleared * scale)
        """Tokens of the tool results that would be left out."""
        behind = _sum(messages[clearable[0][0] :]) if clearable else 0
        self.tail = max(0, int(behind * scale) - self.cleared)
        """Tokens behind the first of them that stay, and have to be written again."""

    def cost_of_clearing(self, prices: Prices, n_requests: int) -> Decimal:
        rest = self._own.n_before - self.cleared
        first = prices.request(read=rest - self.tail, written=self.tail)
        return first + max(0, n_requests - 1) * prices.request(read=rest)

    def clear_at_least(self, prices: Prices, n_requests: int) -> int:
        """The fewest tokens whose reading costs as much as writing the tail again."""
        rewrite = prices.request(written=self.tail) - prices.request(read=self.tail)
        saving = n_requests * prices.request(read=1)
        return int((rewrite / saving).to_integral_value(ROUND_CEILING)) if saving else self.cleared

    def cost_of_ours(self, prices: Prices, n_requests: int) -> Decimal:
        own = self._own
        asked = prices.request(read=own.n_before, output=own.summary_tokens)
        first = prices.request(read=own.n_front, written=max(0, own.n_after - own.n_front))
        return asked + first + max(0, n_requests - 1) * prices.request(read=own.n_after)


def _tokens(context: Context) -> int:
    return sum(data_tokens(segment.data) for segment in context.segments)


def _sum(messages: tuple[Message, ...]) -> int:
    return sum(data_tokens(Segment(message).data) for message in messages)
