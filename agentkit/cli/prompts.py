"""Lines that are asked for at the terminal, and a stdout that has the command's output alone."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer


def ask_line(prompt: str) -> str | None:
    """Return what is typed; None after Ctrl-C, Ctrl-D or at the end of the input."""
    try:
        if sys.stdout.isatty():
            return input(prompt).strip()  # with what the prompt is, editing the line redraws it
        typer.echo(prompt, nl=False, err=True)
        return input().strip()
    except (EOFError, KeyboardInterrupt):
        typer.echo(err=True)
        return None


@contextlib.contextmanager
def prints_on_stderr() -> Iterator[None]:
    """Let what an app prints go to stderr, unless stdout is a terminal and shows both anyway."""
    if sys.stdout.isatty():
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield
