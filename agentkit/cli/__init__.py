"""The `agentkit` command.

running.py        run, resume: Drive takes a run through its pauses; answers.py asks,
                  showing.py shows; prompts.py: what is typed, and what stdout is for
chatting.py       chat
kept_runs.py      runs, show, cost; timeline.py, transcript.py: a run as
                  rows and as a conversation; journals.py: where runs are
mcp_tools.py      mcp list, mcp call; mcp_serve.py: mcp serve
fake_provider.py  fake-provider; listening.py: sockets of both; plan/: plan
agents.py         from `my_app:MyAgent` to an agent; options.py: what several commands take

Exit codes: 0 done, 1 it failed (the reason is the last line on stderr), 2 wrong usage, 3 the run
waits for a person, 130 interrupted. Imports of what a command needs are inside the commands:
`--help` must be fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from agentkit.cli.chatting import chat
from agentkit.cli.fake_provider import fake_provider
from agentkit.cli.kept_runs import cost, runs, show
from agentkit.cli.mcp_serve import serve
from agentkit.cli.mcp_tools import mcp
from agentkit.cli.plan import plan
from agentkit.cli.running import resume, run

app = typer.Typer(
    help="Agents whose prompt caching is a maintained invariant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in (run, chat, resume, runs, show, cost, plan, fake_provider):
    app.command()(_command)
mcp.command("serve")(serve)
app.add_typer(mcp, name="mcp")


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"agentkit {version('agentkit-radix')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Agents whose prompt caching is a maintained invariant."""


def main() -> None:
    """Run the command line; the entry point of the installed script."""
    app(prog_name="agentkit")
