"""The subcommands of `agentkit-runtime`.

Imports of the heavy parts are inside the commands: `--help` must be fast, and a base install
without the `runtime` extra must get a sentence and not a traceback.
"""

from __future__ import annotations

from typing import Annotated

import typer

from agentkit_runtime.cli import keep
from agentkit_runtime.cli.bench import bench
from agentkit_runtime.cli.keys import keys
from agentkit_runtime.cli.limits import limits
from agentkit_runtime.cli.plan import kv_plan
from agentkit_runtime.cli.pull import pull
from agentkit_runtime.cli.serve import serve
from agentkit_runtime.cli.top import top
from agentkit_runtime.cli.wording import Commands

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"agentkit-runtime {version('agentkit-radix')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Serve language models whose agents share one radix tree of KV state."""


app.command()(serve)
app.command()(pull)
keys.command()(limits)
app.add_typer(keys, name="keys")


def main() -> None:
    """Run the command line; the entry point of the installed script."""
    app(prog_name="agentkit-runtime")


app.command("kv-plan")(kv_plan)
for command in (keep.warm, keep.pins, keep.prune, top, bench):
    app.command()(command)
