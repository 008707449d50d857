"""What a request may use, before it is sent; and what it has used, where the provider is silent.

Estimates to the safe side. One that is too high makes requests wait for each other a little sooner
where a limit is near; it refuses none.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from agentkit.caching.tokens import BYTES_PER_TOKEN
from agentkit.context.sizes import reported_tokens, segment_tokens, uncounted_tokens
from agentkit.errors import PriceUnknown
from agentkit.folding import TurnBuilder
from agentkit.models.base import ModelRequest
from agentkit.models.prices import costs_nothing, prices_of
from agentkit.models.routes import leaves
from agentkit.quote import Quote
from agentkit.waiting import Reservation

if TYPE_CHECKING:
    from agentkit.context import Context
    from agentkit.models.base import Model
    from agentkit.state import RunState
    from agentkit.usage import Usage

_MARGIN = 2
"""Two bytes a token in place of four: code, and languages with other letters."""
_OVERHEAD_TOKENS = 500
"""What providers add by themselves, such as how tools are called."""
_LONGEST_ANSWER_TOKENS = 32_000
"""Where no setting bounds it."""
_USUAL_ANSWER_TOKENS = 1_000
"""Of a run that has given none yet."""


class RequestEstimate:
    """How much one request may use.

    Raises:
        PriceUnknown: money is limited, and a model that may answer has no known price.
    """

    def __init__(self, run: RunState, request: ModelRequest) -> None:
        self._budget = run.budget
        self._request = request
        self._last = run.last_usage
        self._models = leaves(run.member.model)
        if self._budget.needs_prices:
            _check_prices(self._models)

    async def reserve(self, *, turns: int = 1) -> Reservation:
        """Wait until the request fits beside those that are under way.

        Args:
            turns: 0 for a request that is no turn of a run, such as for a summary.

        Raises:
            LimitReached: a limit is used up.
        """
        if not self._budget.needs_quotes:
            return await self._budget.reserve(Quote(turns=turns))
        n_input = self._n_input * _MARGIN + _OVERHEAD_TOKENS
        n_output = self._request.settings.max_tokens or _LONGEST_ANSWER_TOKENS
        return await self._budget.reserve(
            Quote(
                turns=turns,
                input_tokens=n_input,
                output_tokens=n_output,
                usd=_usd(self._models, n_input, n_output),
            )
        )

    def used(self, builder: TurnBuilder) -> Quote:
        """Return what a request has used that began to answer, most probably.

        Also where nothing is limited: whoever resumes the run may limit it.
        """
        usage, _ = builder.spent
        is_said = usage.input_tokens is not None and usage.output_tokens is not None
        if is_said and not self._budget.needs_quotes:
            return Quote(turns=0)
        n_input = self._n_input if usage.input_tokens is None else usage.input_tokens
        n_output = usage.output_tokens
        if n_output is None:
            n_output = -(-builder.n_bytes // BYTES_PER_TOKEN)
        return Quote(
            turns=0,
            input_tokens=n_input,
            output_tokens=n_output,
            usd=_usd(self._models, n_input, n_output),
            is_free=all(map(costs_nothing, self._models)),
        )

    @property
    def _n_input(self) -> int:
        volatile = len((self._request.context.volatile or "").encode()) // BYTES_PER_TOKEN
        return _n_prompt(self._last, self._request.context) + volatile


def unseen(run: RunState, longest_answer: int) -> Quote:
    """Return what the run's next request has used if another process has sent it, most probably.

    Args:
        run: as it is before that request.
        longest_answer: that the run has given so far, in tokens; 0: none.
    """
    models = leaves(run.member.model)
    n_input = _n_prompt(run.last_usage, run.context)
    most = run.member.agent.settings.max_tokens or _LONGEST_ANSWER_TOKENS
    n_output = min(most, longest_answer or _USUAL_ANSWER_TOKENS)
    return Quote(
        turns=0,
        input_tokens=n_input,
        output_tokens=n_output,
        usd=_usd(models, n_input, n_output),
        is_free=all(map(costs_nothing, models)),
    )


def _n_prompt(last: Usage | None, context: Context) -> int:
    """Estimate a prompt's tokens: what is behind the last answer, where the rest was counted."""
    counted = reported_tokens(last)
    if counted is not None:
        return counted + uncounted_tokens(context)
    return sum(map(segment_tokens, context.segments))


def _usd(models: Iterable[Model], n_input: int, n_output: int) -> Decimal:
    prices = map(prices_of, models)
    costs = [each.request(written=n_input, output=n_output) for each in prices if each.is_known]
    return max(costs, default=Decimal(0))


def _check_prices(models: tuple[Model, ...]) -> None:
    for model in models:
        if not costs_nothing(model) and not prices_of(model).is_known:
            raise PriceUnknown(
                f"the price of {model.label!r} is not known, so a limit on usd cannot hold: give "
                "its price in CacheOptions(prices=PriceBook(overrides={...})), or set "
                "Limits(allow_unpriced=True), and it is not counted"
            )
