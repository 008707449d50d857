"""`agentkit chat`: a conversation at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.cli import options
from agentkit.cli.failures import failures_as_exit_codes, say
from agentkit.cli.prompts import ask_line
from agentkit.errors import RunError
from agentkit.saved import SavedEnd

if TYPE_CHECKING:
    from agentkit.cli.agents import AnyAgent
    from agentkit.context import Context
    from agentkit.journal import Journal
    from agentkit.result import RunRecord

_HELP = (
    "/new begins a new conversation, /cost says what this one has cost, /quit ends, /help says "
    "this; another / is a part of what you say, and // says a /"
)


def chat(
    where: options.Where,
    journal: options.Journal = None,
    session: options.Session = None,
    user: options.User = None,
    model: options.Model = None,
) -> None:
    """Talk with an agent. Calls that need approval are asked about; Ctrl-C stops an answer.

    Lines are read from stdin, to its end or to /quit.
    """
    from agentkit.cli.agents import load_agent
    from agentkit.cli.journals import journal_to_write

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (lines can be edited, and come back with the arrow keys)
    with failures_as_exit_codes():
        agent = load_agent(where, model=model)
        with (
            journal_to_write(journal, agent.journal) as kept,
            asyncio.Runner() as runner,
        ):
            talk = Talk(agent, kept, session=session, user=user or "")
            runner.run(_entered(agent))
            try:
                say(f"{agent.name}: {_HELP}")
                _talk(talk, runner)
            finally:
                runner.run(agent.__aexit__(None, None, None))
        if kept is not None and talk.records:
            say(f"go on with: agentkit chat {where} --session {talk.session}")


def _talk(talk: Talk, runner: asyncio.Runner) -> None:
    while True:
        line = ask_line("you> ")
        if line is None:
            return
        match line:
            case "/quit" | "/exit":
                return
            case "/new":
                talk.begin_anew()
            case "/cost":
                talk.say_cost()
            case "/help":
                say(_HELP)
            case "":
                pass
            case _:
                _say(talk, runner, line[1:] if line.startswith("//") else line)


def _say(talk: Talk, runner: asyncio.Runner, line: str) -> None:
    try:
        runner.run(talk.say(line))
    except KeyboardInterrupt:
        say("stopped")
        runner.run(talk.interrupted())
    except RunError as error:
        say(f"error: {error}")


async def _entered(agent: AnyAgent) -> None:
    await agent.__aenter__()


class Talk:
    """A conversation: the context of its last run, and what all of it has used."""

    def __init__(
        self, agent: AnyAgent, journal: Journal | None, *, session: str | None, user: str
    ) -> None:
        self.session = session or uuid.uuid4().hex
        self.records: list[RunRecord] = []
        """Of the runs of this conversation, as far as they were held here."""
        self._agent = agent
        self._journal = journal
        self._user = user
        self._context: Context | None = None
        self._run_id = ""

    def begin_anew(self) -> None:
        """Forget the conversation."""
        self._context, self.session, self.records = None, uuid.uuid4().hex, []

    async def say(self, line: str) -> None:
        """Say something, and show what the agent answers.

        Raises:
            RunError: there is no answer. The conversation goes on behind what there is.
        """
        from agentkit.cli.answers import ask_in_chat
        from agentkit.cli.running import Drive
        from agentkit.cli.showing import Screen

        self._run_id = uuid.uuid4().hex
        stream = self._agent.stream(
            line,
            run_id=self._run_id,
            session=self.session,
            user=self._user,
            journal=self._journal,
            context=self._context,
        )
        screen = Screen(watches=False, is_quiet=False, streams=True)
        drive = Drive(self._agent, stream, self._journal, screen, ask_in_chat)
        try:
            ended = await drive.to_the_end()
        finally:
            if (record := drive.stream.record) is not None:
                self.records.append(record)
                self._context = record.context
        if ended.result is not None:
            screen.answered(ended.result)

    async def interrupted(self) -> None:
        """Keep that the last run ended here, so that its session can go on with another."""
        if self._journal is None:
            return
        runs = await self._journal.load(self._run_id)
        if runs and runs[0].status == "running":
            end = SavedEnd(error="KeyboardInterrupt: stopped at the terminal")
            await self._journal.save(replace(runs[0], status="cancelled", end=end))

    def say_cost(self) -> None:
        """Print what the conversation has cost."""
        from agentkit.caching.report import CacheReport

        requests = [request for record in self.records for request in record.requests]
        say(str(CacheReport.of(requests)) if requests else "nothing was asked yet")
