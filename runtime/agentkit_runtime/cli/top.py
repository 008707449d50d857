"""`agentkit-runtime top`: what a server does, live."""

from __future__ import annotations

import dataclasses
import json
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from agentkit_runtime.cli.client_options import DEFAULT_URL, AsJson, Ca, KeyFile, Url, connected

if TYPE_CHECKING:
    from agentkit_runtime.admin_client import AdminClient
    from agentkit_runtime.cli.top_figures import TopFigures

_N_REQUESTS = 10
_N_NODES = 300
_N_SAMPLES = 70
"""Of a second each: those of the window, and some to spare."""


def top(
    url: Url = DEFAULT_URL,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")
    ] = 1.0,
    key_file: KeyFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Show pressure, memory, hit ratio, first tokens, hottest branches and last requests; q ends.

    It needs an admin's key. Ratios, rates and times are those of the last minute. Without a
    terminal it prints once.

    Example: agentkit-runtime top http://127.0.0.1:8321 --once --json
    """
    with connected(url, key_file, ca) as client:
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(look(client)), indent=2))
        elif once or not sys.stdout.isatty():
            _print(look(client))
        else:
            _live(client, interval)


def look(client: AdminClient) -> TopFigures:
    """One look at a server."""
    from agentkit_runtime.cli.top_figures import figures

    return figures(
        client.state(history=_N_SAMPLES),
        client.requests(limit=_N_REQUESTS)["requests"],
        client.tree(limit=_N_NODES)["nodes"],
    )


def _print(seen: TopFigures) -> None:
    from rich.console import Console

    from agentkit_runtime.cli.top_view import frame

    Console(highlight=False).print(frame(seen))


def _live(client: AdminClient, interval_s: float) -> None:
    """Look again and again until q is pressed; a server that is gone is said, and looked for."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from agentkit_runtime.admin_client import ServerFault
    from agentkit_runtime.cli.top_view import frame

    seen = look(client)  # the first failure ends the program: a wrong key, a wrong address
    with _keys() as pressed, Live(frame(seen), console=Console(highlight=False), screen=True) as on:
        while pressed(interval_s) not in ("q", "Q", "\x03", "\x1b"):
            try:
                on.update(frame(look(client)))
            except ServerFault as fault:
                on.update(Text(str(fault), style="red"))


@contextmanager
def _keys() -> Iterator[Callable[[float], str | None]]:
    """A function that waits so many seconds for a key; keys are not echoed until the block ends."""
    try:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
    except (ImportError, OSError, ValueError):  # no such terminal: Ctrl-C ends it
        yield lambda seconds: time.sleep(seconds)
        return

    def pressed(seconds: float) -> str | None:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1) if ready else None

    tty.setcbreak(sys.stdin)
    try:
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
