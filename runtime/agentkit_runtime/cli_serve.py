"""`agentkit-runtime serve`: a model with an OpenAI-compatible API."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentkit_runtime.capacity.sizes import parse_bytes
from agentkit_runtime.cli_failures import DEFAULT_MODEL, Model, failures_as_exit_codes, say
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.format import KvFormat

if TYPE_CHECKING:
    from agentkit_runtime.local import LocalRuntime

# Written down here because their own modules import torch, and --help must be fast. Nothing can
# hint or pin over HTTP, so the policy "hints" and a pin quota would do nothing here.
DType = Literal["float32", "bfloat16", "float16"]
Weights = Literal["float", "float16", "int8", "int4"]
Attention = Literal["auto", "sdpa", "flashinfer"]
Eviction = Literal["lru", "lfu", "slru"]

_SHUTDOWN_S = 5
"""How long open answers may go on after Ctrl-C."""

_BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""


def _parsed(parse: Callable[[str], object]) -> Callable[[str | None], str | None]:
    """Return a callback that refuses what `parse` refuses, with its words."""

    def check(text: str | None) -> str | None:
        if text is not None:
            try:
                parse(text)
            except ValueError as error:
                raise typer.BadParameter(str(error)) from error
        return text

    return check


def serve(
    model: Model = DEFAULT_MODEL,
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
    device: Annotated[
        str | None,
        typer.Option(help="Device of torch, e.g. cpu or cuda:1.", show_default="CUDA if there is"),
    ] = None,
    dtype: Annotated[
        DType | None,
        typer.Option(
            help="What is computed in.",
            show_default="float32 on CPU, bfloat16 on CUDA",
        ),
    ] = None,
    weights: Annotated[
        Weights | None,
        typer.Option(
            help="How weights are stored.",
            show_default="float16 on x86 CPUs, else as computed",
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Folder of a LoRA adapter in PEFT's format.",
            show_default="none",
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(
            callback=_parsed(KvFormat.parse),
            help="Format of stored keys and values: float32, bfloat16, float16, fp8, fp8_e5m2, "
            "int8 or int4.",
            show_default="as computed",
        ),
    ] = None,
    attention: Annotated[
        Attention,
        typer.Option(help="Which kernels read the KV."),
    ] = "auto",
    eviction: Annotated[
        Eviction,
        typer.Option(help="Which cached prefixes leave first."),
    ] = "lru",
    host_cache: Annotated[
        str | None,
        typer.Option(
            callback=_parsed(parse_bytes),
            help="Host memory for KV that leaves the pool, e.g. 4GB.",
            show_default="none; 1GiB with --disk-cache",
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
    disk_cache_size: Annotated[
        str | None,
        typer.Option(
            callback=_parsed(parse_bytes),
            help="Most that --disk-cache may take.",
            show_default="16GiB",
        ),
    ] = None,
) -> None:
    """Serve MODEL with an OpenAI-compatible API."""

    def load() -> LocalRuntime:
        from agentkit_runtime.local import LocalRuntime

        try:
            return LocalRuntime.load(
                model,
                max_slots=slots,
                threads=threads,
                device=device,
                dtype=dtype,
                weights=weights,
                adapter=adapter,
                kv_dtype=kv_dtype,
                attention=attention,
                eviction=eviction,
                host_cache_bytes=None if host_cache is None else parse_bytes(host_cache),
                disk_cache=disk_cache,
                disk_cache_bytes=None if disk_cache_size is None else parse_bytes(disk_cache_size),
            )
        except RuntimeFault:
            raise
        except ValueError as error:  # e.g. a device that this machine does not have
            raise typer.BadParameter(str(error)) from error

    with failures_as_exit_codes():
        # Bound first: a taken port must not cost a model load.
        with _listening_socket(host, port) as listener:
            _warn_when_open(host)
            _serve(model, listener, load)


def _serve(model: str, listener: socket.socket, load: Callable[[], LocalRuntime]) -> None:
    import uvicorn

    from agentkit_runtime.api import create_app

    say(f"loading {model} ...")
    with load() as runtime:
        ids = dict.fromkeys((runtime.model_label, model))
        web = create_app(runtime.service, model_ids=tuple(ids))
        config = uvicorn.Config(web, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S)
        say(str(runtime.pool))
        say(f"serving {runtime.model_label} at {_url(listener)}/v1 (Ctrl-C stops)")
        # uvicorn raises the interrupt again after a clean shutdown; here it is the normal end.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    say("stopped")


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
        say(
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
