"""Counting the requests of a run: for its records and reports, and against its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.caching.report import RequestRecord
from agentkit.events import Turn
from agentkit.folding import TurnBuilder
from agentkit.quote import Quote
from agentkit.quoting import unseen
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.verdict import Verdict
    from agentkit.quoting import RequestEstimate
    from agentkit.state import RunState


def count_turn(run: RunState, turn: Turn, guess: Quote) -> None:
    """Count a request that has led to a turn of this run; see `count_request`."""
    run.budget.count_turn()
    count_request(
        run, turn.usage, turn.timing, turn.verdict, model=turn.model, guess=guess, is_turn=True
    )


def count_broken(run: RunState, builder: TurnBuilder, estimate: RequestEstimate | None) -> None:
    """Count a request whose answer broke off; without an estimate, before it began."""
    guess = None if estimate is None else estimate.used(builder)
    count_request(run, *builder.spent, builder.verdict, model=builder.model, guess=guess)


def count_unseen(run: RunState) -> None:
    """Count what the process was asking that had the run before, and has ended without a word.

    It was asking the model, or about to: what became of that, nobody knows, and it may be billed.
    """
    said = [request.usage.output_tokens or 0 for request in run.requests]
    guess = unseen(run, max(said, default=0))
    count_request(run, Usage(), Timing(), guess=guess)


def count_ping(run: RunState, usage: Usage, timing: Timing, verdict: Verdict) -> None:
    """Count a request that was made only to keep the prefix in the cache.

    Raises:
        LimitReached: it was the last one that a limit allows.
    """
    count_request(run, usage, timing, verdict)
    run.budget.check()


def count_request(
    run: RunState,
    usage: Usage,
    timing: Timing,
    verdict: Verdict | None = None,
    *,
    model: str | None = None,
    guess: Quote | None = None,
    is_turn: bool = False,
) -> None:
    """Count a request of a run, which the records of all runs above include.

    Args:
        run: whose it is.
        usage: its tokens.
        timing: its seconds.
        verdict: what its cache did.
        model: who answered, where that is not the agent's model itself.
        guess: what it used most probably, for limits; None: nothing that is not known.
        is_turn: whether it has led to a turn.
    """
    record = RequestRecord(
        path=run.path,
        model=model or run.member.model.label,
        usage=usage,
        timing=timing,
        verdict=verdict,
        run_id=run.run_id,
        session=run.session,
        tenant=run.member.tenant,
        epoch=run.epoch,
        agent=run.taken_over_by,
        is_turn=is_turn,
        guess=None if guess is None or _is_said(usage, verdict, guess) else guess,
    )
    run.counted(record, guess)


def _is_said(usage: Usage, verdict: Verdict | None, guess: Quote) -> bool:
    """Whether the provider says all that is guessed."""
    has_cost = verdict is not None and verdict.cost is not None
    has_tokens = usage.input_tokens is not None and usage.output_tokens is not None
    return has_tokens and (has_cost or not guess.usd)
