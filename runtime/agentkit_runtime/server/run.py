"""Listens, loads, serves, drains.

uvicorn runs in a thread of its own and the model is loaded in the main one: probes are answered
while that takes, and Ctrl-C ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging.config
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from agentkit_runtime.server.config import ServerConfig

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp

    from agentkit_runtime.api.draining import DrainingServer
    from agentkit_runtime.governing.lifecycle import Lifecycle
    from agentkit_runtime.local import LocalRuntime
    from agentkit_runtime.watching.options import WatchOptions

_BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""

_SHUTDOWN_S = 5
"""How long connections may go on after answers have ended."""

Say = Callable[[str], None]


def run(config: ServerConfig, say: Say) -> None:
    """Serve until a signal ends it. For the main thread. `say` tells people how it goes.

    Raises:
        OSError: the address is taken, or a file cannot be read.
        RuntimeFault: the model or the key store cannot be used.
        ValueError: an option does not fit this machine.
        KeyboardInterrupt: it was interrupted before it could answer.
    """
    from agentkit_runtime.api.starting import Starting
    from agentkit_runtime.governing.lifecycle import Lifecycle
    from agentkit_runtime.routing.options import publishing
    from agentkit_runtime.server.parts import assembled
    from agentkit_runtime.server.warm_up import warm_up

    say = _logging(config.watch, say)
    _check_keys(config.access.keys, say)
    lifecycle, starting = Lifecycle(), Starting()
    # Bound first: a taken port must not cost a model load.
    with (
        config.access.tls() as tls,
        _listening_socket(config.host, config.port) as listener,
        publishing(config.routing) as publisher,
    ):
        server = _server(config, starting, lifecycle, tls)
        with _running(server, listener) as thread:
            say(f"loading {config.model} ...")
            with _loaded(config) as runtime:
                warm_up(runtime.service)
                if publisher is not None:
                    publisher.follow(runtime.service.prefixes.engine)
                    say(f"publishing KV events at {publisher.endpoint}")
                with assembled(
                    runtime.service,
                    config,
                    lifecycle,
                    model_ids=tuple(
                        dict.fromkeys((*config.model_names, runtime.model_label, config.model))
                    ),
                    rotate_key=runtime.rotate_namespace_key,
                ) as parts:
                    server.answering = parts.answering
                    starting.became = parts.served
                    _leave_out_of_collections()
                    lifecycle.ready()
                    say(str(runtime.pool))
                    say(f"serving {runtime.model_label} at {_url(listener, tls)}/v1 (Ctrl-C stops)")
                    _wait(server, thread)
    say("stopped")


def _leave_out_of_collections() -> None:
    """Let the garbage collector not walk what is loaded: that stays, and each full collection took
    0.1 to 0.25 s, in which nobody got a token."""
    gc.collect()
    gc.freeze()


def _logging(options: WatchOptions, say: Say) -> Say:
    """Set up logs. Where they are for machines, what people are told is a log line, too."""
    from agentkit_runtime.watching.logs import log_config

    logging.config.dictConfig(log_config(options))
    if options.log_format == "json":
        return logging.getLogger(__name__).info
    return say


def _loaded(config: ServerConfig) -> LocalRuntime:
    from agentkit_runtime.local import LocalRuntime
    from agentkit_runtime.routing.options import KEPT_EVENTS

    engine = {"kv_events": KEPT_EVENTS, **config.engine}
    return LocalRuntime.load(config.model, namespace_key=config.namespace_key, **engine)


def _check_keys(path: Path | None, say: Say) -> None:
    """Open the key store, if there is to be one, and say what it lacks."""
    if path is None:
        return
    from agentkit_runtime.tenancy.store import KeyStore

    with KeyStore(path) as store:
        roles = {
            role
            for key in store.records()
            if key.state(time.time()) == "active"
            for role in key.roles
        }
    for role in ("user", "admin"):
        if role not in roles:
            say(f"note: {path} has no key with the {role} role; `keys add --role {role}` makes one")


def _server(
    config: ServerConfig, app: ASGIApp, lifecycle: Lifecycle, tls: ssl.SSLContext | None
) -> DrainingServer:
    import uvicorn

    from agentkit_runtime.api.connections import patient_protocol
    from agentkit_runtime.api.draining import DrainingServer

    options = uvicorn.Config(
        app,
        http=patient_protocol(config.patience),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    options.load()
    options.ssl = tls
    return DrainingServer(options, lifecycle, drain_s=config.drain_s)


class _ServerThread(threading.Thread):
    """Runs a server; `failure` is what ended it, if it was not asked to end."""

    def __init__(self, server: DrainingServer, listener: socket.socket) -> None:
        super().__init__(name="agentkit-server")
        self._server = server
        self._listener = listener
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._listener]))
        except BaseException as failure:  # told in the main thread
            self.failure = failure


@contextmanager
def _running(server: DrainingServer, listener: socket.socket) -> Iterator[_ServerThread]:
    """Run the server in a thread; at the end of the block it stops."""
    thread = _ServerThread(server, listener)
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()


def _wait(server: DrainingServer, thread: _ServerThread) -> None:
    """Wait until a signal has ended the server; a second Ctrl-C does not wait for its answers."""

    def stop(number: int, frame: FrameType | None) -> None:
        server.handle_exit(number, frame)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        thread.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if thread.failure is not None:
        raise thread.failure


def _listening_socket(host: str, port: int) -> socket.socket:
    """A bound and listening socket. Raises OSError with a message that names the address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        # Connections inherit it. asyncio sets it only where a socket names its protocol; without it
        # the end of each answer waits for the client's delayed acknowledgement: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port or "
            "--host"
        ) from error


def _url(listener: socket.socket, tls: ssl.SSLContext | None) -> str:
    scheme = "http" if tls is None else "https"
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
