"""The `agentkit-runtime` command: serve a model over HTTP, or fetch one.

Exit codes: 0 done, 1 the work failed (the reason is the last line on stderr), 2 wrong usage,
130 interrupted before there was anything to stop.
Imports of the heavy parts are inside the commands: `--help` must be fast, and a base install
without the `runtime` extra must get a sentence and not a traceback.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from agentkit_runtime.capacity.sizes import parse_bytes
from agentkit_runtime.cli_plan import kv_plan
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.format import KvFormat

_DEFAULT_MODEL = "smollm2"
_SHUTDOWN_S = 5
"""How long open answers may go on after Ctrl-C."""

_BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""

Model = Annotated[
    str,
    typer.Argument(help="smollm2, a .gguf file, a model folder, or a hub id org/name."),
]

app = typer.Typer(
    help="Serve language models whose agents share one radix tree of KV state.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.command("kv-plan")(kv_plan)


def main() -> None:
    """Run the command line; the entry point of the installed script."""
    app(prog_name="agentkit-runtime")


@app.command()
def serve(
    model: Model = _DEFAULT_MODEL,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8321,
    slots: Annotated[
        int | None, typer.Option(min=16, help="KV slots (tokens) in the pool.", show_default="auto")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Compute threads.", show_default="all cores")
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(
            callback=lambda name: _known_format(name),
            help="Format of stored keys and values: float32, bfloat16, float16, fp8, fp8_e5m2, "
            "int8 or int4.",
            show_default="as computed",
        ),
    ] = None,
    host_cache: Annotated[
        str | None,
        typer.Option(
            callback=lambda size: _known_size(size),
            help="Host memory for KV that leaves the pool, e.g. 4GB.",
            show_default="none",
        ),
    ] = None,
    disk_cache: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for KV that outlives the server.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Serve MODEL with an OpenAI-compatible API."""
    tiers = _Tiers(host_cache, disk_cache)
    with _failures_as_exit_codes():
        # Bound first: a taken port must not cost a model load.
        with _listening_socket(host, port) as listener:
            _warn_when_open(host)
            _serve(model, listener, slots, threads, kv_dtype, tiers)


@app.command()
def pull(model: Model) -> None:
    """Fetch MODEL, or check that it is already here."""
    with _failures_as_exit_codes():
        from agentkit_runtime.loading import locate

        files = locate(model)
        typer.echo(f"{files.label} is ready: {', '.join(map(str, files.weights))}")


@dataclass(frozen=True, slots=True)
class _Tiers:
    """Where KV goes that leaves the pool."""

    host: str | None
    folder: Path | None

    @property
    def host_bytes(self) -> int | None:
        """The size as a number."""
        return None if self.host is None else parse_bytes(self.host)


def _known_size(size: str | None) -> str | None:
    if size is not None:
        try:
            parse_bytes(size)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return size


def _serve(
    model: str,
    listener: socket.socket,
    slots: int | None,
    threads: int | None,
    kv_dtype: str | None,
    tiers: _Tiers,
) -> None:
    import uvicorn

    from agentkit_runtime.api import create_app
    from agentkit_runtime.local import LocalRuntime

    _say(f"loading {model} ...")
    with LocalRuntime.load(
        model,
        max_slots=slots,
        threads=threads,
        kv_dtype=kv_dtype,
        host_cache_bytes=tiers.host_bytes,
        disk_cache=tiers.folder,
    ) as runtime:
        ids = dict.fromkeys((runtime.model_label, model))
        web = create_app(runtime.service, model_ids=tuple(ids))
        config = uvicorn.Config(web, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S)
        _say(str(runtime.pool))
        _say(f"serving {runtime.model_label} at {_url(listener)}/v1 (Ctrl-C stops)")
        # uvicorn raises the interrupt again after a clean shutdown; here it is the normal end.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    _say("stopped")


def _known_format(name: str | None) -> str | None:
    try:
        return name and KvFormat.parse(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@contextlib.contextmanager
def _failures_as_exit_codes() -> Iterator[None]:
    try:
        yield
    except RuntimeFault as fault:
        _fail(str(fault))
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("agentkit_runtime"):
            raise
        _fail(
            f"the package {missing.name!r} is missing; "
            'install the runtime with: pip install "agentkit-radix[runtime]"'
        )
    except OSError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted", code=130)


def _fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def _say(message: str) -> None:
    typer.echo(message, err=True)


def _listening_socket(host: str, port: int) -> socket.socket:
    """A bound and listening socket. Raises OSError with a message that names the address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port or "
            "--host"
        ) from error


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _warn_when_open(host: str) -> None:
    if not _is_loopback(host):
        _say(
            f"warning: listening on {host}, and there is no authentication yet: everyone who can "
            "reach this address can use the model. Bind to 127.0.0.1 unless that is wanted."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
