"""A request of a run that is no turn of it: for a summary, or for a server that wants an answer.

It counts against the run's limits and in its bill like any other. What it says becomes no part of
the conversation, and is told by no event.
"""

from __future__ import annotations

import logging
from contextlib import aclosing

from agentkit.counting import count_broken
from agentkit.errors import ModelError
from agentkit.events import Turn
from agentkit.folding import TurnBuilder
from agentkit.models.base import ModelRequest
from agentkit.quoting import RequestEstimate
from agentkit.state import RunState
from agentkit.telemetry import ask_model


async def ask_aside(
    run: RunState, request: ModelRequest, what: str, logger: logging.Logger
) -> Turn | None:
    """Ask once, and count the request. None if the model fails, which is logged.

    Args:
        run: whose request it is.
        request: what to ask.
        what: is asked for, for the log.
        logger: of who asks.

    Raises:
        LimitReached: what is left of a limit does not allow it.
        PriceUnknown: money is limited, and the model's price is not known.
    """
    builder, has_begun = TurnBuilder(), False
    estimate = RequestEstimate(run, request)
    reservation = await estimate.reserve(turns=0)
    turn: Turn | None = None
    has_failed = False
    try:
        async with aclosing(ask_model(run, request)) as events:
            async for event in events:
                has_begun = True
                builder.push(event)
        turn = builder.finish()
    except ModelError as error:
        logger.warning("agent %r: %s failed", run.member.name, what, exc_info=error)
        has_failed, has_begun = True, has_begun or error.response_began
    finally:
        if has_begun or has_failed:
            count_broken(run, builder, estimate if has_begun else None)
        reservation.settle()
    return turn
