"""What all commands of `agentkit-runtime` share: the model argument, and how failures end.

Exit codes: 0 done, 1 the work failed (the reason is the last line on stderr), 2 wrong usage,
130 interrupted before there was anything to stop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, NoReturn

import typer

from agentkit_runtime.errors import RuntimeFault

DEFAULT_MODEL = "smollm2"

Model = Annotated[
    str,
    typer.Argument(help="smollm2, a .gguf file, a model folder, or a hub id org/name."),
]


@contextlib.contextmanager
def failures_as_exit_codes() -> Iterator[None]:
    """End the program with one line for what may go wrong in ordinary use."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("agentkit_runtime"):
            raise
        _fail(
            f"the package {missing.name!r} is missing; "
            'in a checkout run: pip install -c requirements.lock ".[runtime]"'
        )
    except (RuntimeFault, OSError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted", code=130)


def say(message: str) -> None:
    """Print a line to stderr."""
    typer.echo(message, err=True)


def _fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
