"""What all commands share that talk to a running server: its address, the key, certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentkit_runtime.cli.failures import failures_as_exit_codes

if TYPE_CHECKING:
    from agentkit_runtime.admin_client import AdminClient

KEY_VARIABLE = "AGENTKIT_RUNTIME_KEY"
"""Environment variable of the key. There is no option for it: options are in the process list."""

DEFAULT_URL = "http://127.0.0.1:8321"

Url = Annotated[str, typer.Argument(help="Address of the server.", metavar="[URL]")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the API key; else the environment's {KEY_VARIABLE}.",
        show_default="none",
        exists=True,
        dir_okay=False,
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of certificates to trust, for servers with one of their own.",
        show_default="the system's",
        exists=True,
        dir_okay=False,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(help="Act for this tenant, with an admin's key.", show_default="the key's own"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def read_key(path: Path | None) -> str | None:
    """The key of a file, or of the environment; None if neither has one.

    Raises:
        OSError: the file cannot be read, or has no key.
    """
    if path is None:
        return os.environ.get(KEY_VARIABLE, "").strip() or None
    key = path.read_text("utf-8", errors="replace").strip()
    if not key or len(key.split()) > 1 or not key.isascii():
        raise OSError(f"{path} does not have a key on one line")
    return key


@contextmanager
def connected(
    url: str, key_file: Path | None, ca: Path | None, tenant: str | None = None
) -> Iterator[AdminClient]:
    """A client of the server; failures end the program."""
    with failures_as_exit_codes():
        from agentkit_runtime.admin_client import AdminClient

        with AdminClient(url, key=read_key(key_file), tenant=tenant, ca=ca) as client:
            yield client
