"""Between two turns: a conversation that got too long goes on from a summary.

When and how far is decided by `agentkit.context.compact`. Here the summary is asked for, as one
more request of the run. One that fails leaves the context as it is, and never fails the run.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from decimal import Decimal

from agentkit.asking_aside import ask_aside
from agentkit.blocks import ToolMessage, ToolResult, UserMessage
from agentkit.caching.tokens import data_tokens
from agentkit.context import Context
from agentkit.context.compact import CompactionRule, Summarise, next_step
from agentkit.context.prices import Prices
from agentkit.context.provider_edits import better_than
from agentkit.events import ContextCompacted, Turn
from agentkit.models.base import HasPrices, Model, ModelRequest, Settings, has_window
from agentkit.models.prices import prices_of
from agentkit.state import RunState
from agentkit.team.joining import keep_role
from agentkit.telling import newer_front, renewed
from agentkit.tool_changes import learn_tools, show_newest_tools, with_newest_tools

_LOGGER = logging.getLogger("agentkit.context")

_ATTEMPTS = 2
_TURNS_AFTER_FAILURE = 4
"""A failed summary is not asked for again at once; each failure doubles the wait."""
_TRIGGER_SHARE, _LIMIT_SHARE = Decimal("0.5"), Decimal("0.8")
"""Of what the model can read, where a rule expects more than that."""


async def compact(run: RunState, turn: int) -> AsyncGenerator[ContextCompacted, None]:
    """Begin a new epoch if it is time for one. Yields one event then, and none otherwise.

    Cancelled or closed at any time, the context is the old one or the new one.
    """
    rule = run.member.agent.compaction
    if rule is None or run.last_usage is None or turn < run.summary_not_before:
        return
    model = run.member.model
    rule, prices = fitted(rule, model), prices_of(model)
    turns_left = _turns_left(run, rule)
    step = next_step(
        run.context,
        run.last_usage,
        rule,
        prices,
        turns_left=turns_left,
        front=newer_front(run),
    )
    if not isinstance(step, Summarise):
        if step.is_above_trigger:
            _LOGGER.debug("agent %r: no summary yet: %s", run.member.name, step.reason)
        return
    text = await _summary(run, step, turn, rule)
    if text is None:
        run.summary_not_before = turn + _TURNS_AFTER_FAILURE * 2**run.n_failed_summaries
        run.n_failed_summaries += 1
        return
    await learn_tools(run)
    before = run.context
    run.begin_epoch(with_newest_tools(run, step.after(text)))
    has_new_tools = show_newest_tools(run)
    if step.front is not None:
        renewed(run, before)
    keep_role(run)
    yield ContextCompacted(
        turn=turn,
        tokens_before=step.n_before,
        tokens_after=step.n_after - step.summary_tokens + data_tokens(text.encode()),
        reason=f"{step.reason}; the tools in front are those of now"
        if has_new_tools
        else step.reason,
        advice=_advice(model, step, prices, turns_left, rule),
    )


def fitted(rule: CompactionRule, model: Model) -> CompactionRule:
    """Return the rule, with its lengths cut to what the model can read, if it says that."""
    window = model.context_tokens if has_window(model) else None
    if window is None or rule.limit <= int(window * _LIMIT_SHARE):
        return rule
    trigger = min(rule.trigger_tokens, int(window * _TRIGGER_SHARE))
    target = int(trigger * rule.target_ratio)
    return replace(
        rule,
        trigger_tokens=trigger,
        limit_tokens=int(window * _LIMIT_SHARE),
        summary_tokens=max(1, min(rule.summary, target // 4)),
    )


def _turns_left(run: RunState, rule: CompactionRule) -> int | None:
    """Requests expected from now on. A user may go on with the root's conversation."""
    if not run.is_below:
        return None
    return min(rule.turns_left, run.member.agent.max_turns - run.own_turn)


async def _summary(run: RunState, step: Summarise, turn: int, rule: CompactionRule) -> str | None:
    """Return the model's summary; None if there is none after a second try."""
    request = _request(run, step, turn, rule)
    for attempt in range(_ATTEMPTS):
        asked = replace(request, request_id=f"{run.run_id}-{turn}-summary-{attempt}")
        said = await ask_aside(run, asked, "the summary", _LOGGER)
        if said is None:
            return None
        problem = _problem(said)
        if problem is None:
            return said.message.text
        _LOGGER.warning("agent %r: the model wrote no summary: %s", run.member.name, problem)
        request = replace(request, context=_corrected(request.context, said))
    return None


def _request(run: RunState, step: Summarise, turn: int, rule: CompactionRule) -> ModelRequest:
    """Return the request: the last one, as far as it leaves the model free to write a summary.

    An answer in the form of the output type, or a call that must be made, would be no summary.
    """
    last = run.last_request or run.member.request(run, turn, 0)
    return replace(
        last,
        context=step.request_context,
        tool_choice=last.tool_choice if last.tool_choice in ("auto", "none") else "auto",
        output_schema=None,
        settings=_with_room(last.settings, rule),
        epoch=run.epoch,
        reuse=replace(last.reuse, again=False),
    )


def _with_room(settings: Settings, rule: CompactionRule) -> Settings:
    """Bounds that were set for short answers must not cut the summary off."""
    most = settings.max_tokens
    if most is not None:
        most = max(most, 2 * rule.summary)
    return replace(settings, max_tokens=most, stop=())


def _problem(said: Turn) -> str | None:
    if said.message.calls:
        return f"it called {sorted({call.name for call in said.message.calls})!r}"
    if said.finish == "length":
        return "it was cut off at the token limit"
    return None if said.message.text.strip() else "the answer is empty"


def _corrected(context: Context, said: Turn) -> Context:
    """Return what to ask with again: as before, and what was wrong, so that it is still cached."""
    message = said.message
    if message.calls:
        results = [
            ToolResult(call_id=call.id, name=call.name, content=_NO_CALLS, is_error=True)
            for call in message.calls
        ]
        return context.append(message, ToolMessage(tuple(results)), UserMessage.of(_NO_CALLS))
    if message.text.strip():
        return context.append(message, UserMessage.of(_SHORTER))
    return context


def _advice(
    model: Model, step: Summarise, prices: Prices, turns_left: int | None, rule: CompactionRule
) -> str | None:
    if not isinstance(model, HasPrices):
        return None
    found = better_than(
        step,
        model.context_edits(),
        prices,
        turns_left=rule.turns_left if turns_left is None else turns_left,
        trigger_tokens=rule.trigger_tokens,
    )
    if found is None:
        return None
    return f"the provider's {found.edit.name} would have cost less: {found.reason}"


_NO_CALLS = "Tools are not called now. Write the summary, in plain text."
_SHORTER = "That was too long, and was cut off. Write the whole summary again, much shorter."
