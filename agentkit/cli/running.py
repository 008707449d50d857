"""`agentkit run`, `agentkit resume`: one run, from a question to an answer or to a pause."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit.cli import options
from agentkit.cli.failures import WAITS, fail, failures_as_exit_codes, say
from agentkit.cli.prompts import prints_on_stderr

if TYPE_CHECKING:
    from agentkit.cli.agents import AnyAgent
    from agentkit.cli.answers import Ask
    from agentkit.cli.showing import Screen
    from agentkit.journal import Journal
    from agentkit.result import RunResult
    from agentkit.saved import PausedRun
    from agentkit.stream import RunStream


def run(
    where: options.Where,
    question: Annotated[str, typer.Argument(help="What to ask; - reads it from stdin.")],
    watch: options.Watch = False,
    as_json: options.AsJson = False,
    journal: options.Journal = None,
    session: options.Session = None,
    user: options.User = None,
    model: options.Model = None,
) -> None:
    """Ask an agent, and print its answer.

    The answer goes to stdout, everything else to stderr. Exit code 3: the run waits for a person's
    answer to a call; `agentkit resume` goes on with it.
    """
    from agentkit.cli.agents import load_agent
    from agentkit.cli.journals import journal_to_write

    asked = sys.stdin.read() if question == "-" else question
    run_id = uuid.uuid4().hex
    with failures_as_exit_codes():
        with prints_on_stderr():
            agent = load_agent(where, model=model)
        with journal_to_write(journal, agent.journal) as kept:
            stream = agent.stream(
                asked, run_id=run_id, session=session, user=user or "", journal=kept
            )
            go_on = _go_on(run_id, where, journal, model)
            hint = f"; go on with: {go_on}" if kept is not None else ""
            _drive(agent, stream, kept, go_on=go_on, watch=watch, as_json=as_json, hint=hint)


def resume(
    name: options.RunName,
    where: options.Where,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            help="Id of a call that may run, or all but questions; can be repeated.", metavar="ID"
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(help="Id of a call that may not, and why.", metavar="ID[=REASON]"),
    ] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            help="Result of a call that somebody else has run; JSON for what a server asks.",
            metavar="ID=TEXT",
        ),
    ] = None,
    watch: options.Watch = False,
    as_json: options.AsJson = False,
    journal: options.Journal = None,
    model: options.Model = None,
) -> None:
    """Go on with a run that waits, failed, was interrupted, or lost its process."""
    from agentkit.cli.agents import load_agent
    from agentkit.cli.answers import given_answers
    from agentkit.cli.journals import journal_to_resume, load_run
    from agentkit.saved import PausedRun

    with failures_as_exit_codes():
        with prints_on_stderr():
            agent = load_agent(where, model=model)
        with journal_to_resume(journal, agent.journal) as kept:
            waiting = PausedRun(runs=asyncio.run(load_run(kept, name)))
            answers = given_answers(waiting, approve or (), deny or (), answer or ())
            stream = agent.resume_stream(waiting.run_id, answers, journal=kept)
            go_on = _go_on(waiting.run_id, where, journal, model)
            hint = f"; go on with: {go_on}"
            _drive(agent, stream, kept, go_on=go_on, watch=watch, as_json=as_json, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: with its answer, or waiting."""

    result: RunResult[Any] | None
    paused: PausedRun | None


class Drive:
    """One run, through all its pauses that somebody ends at once."""

    def __init__(
        self,
        agent: AnyAgent,
        stream: RunStream[Any],
        journal: Journal | None,
        screen: Screen,
        ask: Ask,
    ) -> None:
        self.stream = stream
        """What runs now, or ran last."""
        self._agent = agent
        self._journal = journal
        self._screen = screen
        self._ask = ask

    async def to_the_end(self) -> Ended:
        """Show the run; where calls wait, ask, and go on until there is an answer or none is given.

        Raises:
            RunError: there is no answer.
        """
        while True:
            async with self.stream as events:
                await self._screen.show(events)
            if events.paused is None:
                return Ended(result=events.result, paused=None)
            answers = self._ask(events.paused)
            if not answers:
                return Ended(result=None, paused=events.paused)
            self.stream = self._agent.resume_stream(events.paused, answers, journal=self._journal)


def _drive(
    agent: AnyAgent,
    stream: RunStream[Any],
    journal: Journal | None,
    *,
    go_on: str,
    watch: bool,
    as_json: bool,
    hint: str,
) -> None:
    """Run to the end, and print it."""
    from agentkit.cli.answers import ask_at_terminal
    from agentkit.cli.showing import Screen, failed_json, paused_json, result_json
    from agentkit.errors import RunError

    screen = Screen(watches=watch, is_quiet=as_json)
    drive = Drive(agent, stream, journal, screen, ask_at_terminal())
    try:
        with prints_on_stderr():
            ended = asyncio.run(drive.to_the_end())
    except KeyboardInterrupt:
        fail(f"interrupted{hint}", code=130)
    except RunError as error:
        if as_json and error.partial is not None:
            typer.echo(json.dumps(failed_json(error, error.partial)))
        raise
    if ended.paused is not None:
        if as_json:
            typer.echo(json.dumps(paused_json(ended.paused)))
        _say_what_waits(ended.paused, go_on, is_kept=journal is not None)
        raise typer.Exit(WAITS)
    assert ended.result is not None, "a run has its answer, or waits"
    if as_json:
        typer.echo(json.dumps(result_json(ended.result)))
    else:
        screen.answered(ended.result)


def _go_on(run_id: str, where: str, journal: str | None, model: str | None) -> str:
    """The command that goes on with a run, with the options by which this one was begun.

    A database's URL may have a password, and is not repeated.
    """
    place = "URL" if journal is not None and "@" in journal else journal
    named = {"--journal": place, "--model": model}
    given = [word for name, value in named.items() if value is not None for word in (name, value)]
    return shlex.join(["agentkit", "resume", run_id, where, *given])


def _say_what_waits(paused: PausedRun, go_on: str, *, is_kept: bool) -> None:
    from agentkit.cli.answers import pending_text

    for each in paused.pending:
        say(f"{pending_text(each)}\n  id: {each.id}")
    if not is_kept:
        say("the run waits, and is lost: without a journal nobody can go on with it")
        return
    said = _options_for(paused)
    say(f"the run waits; go on with: {go_on}{said}")


def _options_for(paused: PausedRun) -> str:
    """The options that answer what waits."""
    is_asked = {each.question is not None for each in paused.pending}
    named = {False: "--approve ID", True: "--answer ID=JSON"}
    known = [named[each] for each in sorted(is_asked)]
    return f" {', '.join(known)}, or --deny ID=REASON" if known else ""
