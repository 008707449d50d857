"""How commands end when they cannot go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NoReturn

import typer

from agentkit.errors import AgentkitError

WAITS = 3
"""Exit code of a run that waits for a person."""


@contextlib.contextmanager
def failures_as_exit_codes() -> Iterator[None]:
    """Turn errors that a person can do something about into one line and an exit code."""
    try:
        yield
    except BrokenPipeError:
        raise  # of `agentkit ... | head`: typer ends the command without a word
    except (AgentkitError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted", code=130)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def say(message: str) -> None:
    """Tell a person something; the command's own output stays on stdout."""
    typer.echo(message, err=True)
