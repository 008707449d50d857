"""What a person says to calls that wait, as options or asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from agentkit.cli.failures import fail, say
from agentkit.cli.prompts import ask_line
from agentkit.errors import ConfigurationError
from agentkit.saved import Answer, Answered, Approve, Deny, PausedRun, PendingCall
from agentkit.toolset.caller import Accept, Question

Ask: TypeAlias = Callable[[PausedRun], Mapping[str, Answer]]
"""Returns the answers to some pending calls; none if nobody can be asked."""

EVERY = "all"
_ARGUMENTS_SHOWN = 2_000


def given_answers(
    paused: PausedRun, approve: Iterable[str], deny: Iterable[str], answer: Iterable[str]
) -> dict[str, Answer]:
    """Return the answers that options gave.

    Args:
        paused: the run whose calls wait.
        approve: ids of calls, or `all`.
        deny: ids, or `ID=reason`, or `all=reason`.
        answer: `ID=text`: the values that a server asks for, as JSON; of a call that waits for
            approval, its result, where somebody else has run it.
    """
    answers: dict[str, Answer] = {}
    for call_id in approve:
        answers |= dict.fromkeys(_meant(paused, call_id, is_asked=False), Approve())
    for text in deny:
        call_id, _, reason = text.partition("=")
        answers |= dict.fromkeys(_meant(paused, call_id), Deny(reason))
    for text in answer:
        call_id, equals, content = text.partition("=")
        if not equals:
            fail(f"--answer {text!r} has no text; write --answer ID=TEXT", code=2)
        asked = [each for each in paused.pending if each.question is not None]
        keys = {key for each in asked for key in (each.id, each.call.id)}
        for meant in _meant(paused, call_id):
            answers[meant] = _values(content) if meant in keys else Answered(content)
    return answers


def ask_at_terminal() -> Ask:
    """Return how to ask: at the terminal, or not at all where there is none."""
    return _asked if sys.stdin.isatty() else _not_asked


def ask_in_chat(paused: PausedRun) -> Mapping[str, Answer]:
    """Ask, where a conversation cannot go on without: no answer is a no."""
    return {each.id: Deny() for each in paused.pending} | dict(_asked(paused))


def pending_text(pending: PendingCall) -> str:
    """Return a call that waits, in words: who calls what with which arguments."""
    if pending.question is not None:
        return _question_text(pending, pending.question)
    arguments = pending.call.arguments
    if len(arguments) > _ARGUMENTS_SHOWN:
        arguments = f"{arguments[:_ARGUMENTS_SHOWN]}... ({len(arguments):,} characters)"
    return f"{'/'.join(pending.path)} wants to call {pending.call.name} with {arguments or '{}'}"


def _meant(paused: PausedRun, call_id: str, *, is_asked: bool = True) -> list[str]:
    """Return the full ids that an option is for. `all` may leave out what servers have asked."""
    if call_id == EVERY:
        return [each.id for each in paused.pending if is_asked or each.question is None]
    return [call_id]


def _values(text: str) -> Accept:
    try:
        return Accept(text)
    except ConfigurationError:
        fail(f"the answer to a question is a JSON object, not {text!r:.200}", code=2)


def _not_asked(paused: PausedRun) -> Mapping[str, Answer]:
    return {}


def _asked(paused: PausedRun) -> Mapping[str, Answer]:
    answers: dict[str, Answer] = {}
    for pending in paused.pending:
        say(pending_text(pending))
        if pending.question is not None:
            if (given := _asked_values(pending.question)) is not None:
                answers[pending.id] = given
            continue
        said = ask_line("agree? (yes, no, or no with a reason; empty: later): ") or ""
        word, _, reason = said.partition(" ")
        if word.lower() in ("y", "yes"):
            answers[pending.id] = Approve()
        elif word:
            is_no = word.lower().rstrip(",:;") in ("n", "no")
            answers[pending.id] = Deny(reason.strip() if is_no else said)
    return answers


def _question_text(pending: PendingCall, question: Question) -> str:
    who = f"{'/'.join(pending.path)}: server {question.server} asks (call of {pending.call.name})"
    if question.url is not None:
        return f"{who}: {question.text}\n  visit {question.url}"
    fields = "".join(
        f"\n  {name}{' (required)' * (name in question.required)}: {schema}"
        for name, schema in question.fields.items()
    )
    return f"{who}: {question.text}{fields}"


def _asked_values(question: Question) -> Accept | Deny | None:
    """Ask for the values of a form until they fit; None: later."""
    ask = "values as JSON" if question.url is None else "done? (yes)"
    while word := (ask_line(f"{ask}, or no; empty: later: ") or "").strip():
        if word.lower() in ("n", "no"):
            return Deny()
        if question.url is not None:
            return Accept() if word.lower() in ("y", "yes") else Deny(word)
        try:
            given = Accept(word)
        except ConfigurationError:
            say("that is no JSON object")
            continue
        if (problem := question.problem_with(given.content)) is None:
            return given
        say(problem)
    return None
