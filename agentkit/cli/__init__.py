"""The `agentkit` command.

Exit codes: 0 done, 1 it failed (the reason is the last line on stderr), 2 wrong usage,
130 interrupted. Imports of what a command needs are inside the commands: `--help` must be fast.
"""

from __future__ import annotations

import typer

from agentkit.cli.fake_provider import fake_provider
from agentkit.cli.plan import plan

app = typer.Typer(
    help="Agents whose prompt caching is a maintained invariant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(fake_provider)
app.command()(plan)


@app.callback()
def _root() -> None:
    """Agents whose prompt caching is a maintained invariant."""


def main() -> None:
    """Run the command line; the entry point of the installed script."""
    app(prog_name="agentkit")
