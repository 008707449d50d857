"""What these servers share: strict tools with clean errors, one listing, two transports.

    tools = [strict_tool(notes.add, annotations=ADDS), strict_tool(notes.read, annotations=READS)]
    server = make_server("agentkit-notes", "Keeps notes.", tools)
    return serve(server, "the notes", http_port=None)

A listing has the same bytes at each start: tools are sorted by name, and their schemas come from
the functions alone. Over HTTP a server listens on 127.0.0.1 only and refuses foreign `Host` and
`Origin` headers; it asks for no password, so every user of the machine can call it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import importlib.util
import inspect
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import ValidationError, create_model

from agentkit_tools._errors import Refused
from agentkit_tools._names import shown_name
from agentkit_tools._stdin import exit_after

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
"""The tool changes nothing."""

ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""The tool adds something and overwrites nothing; a second call adds it again."""

REPEATABLE = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""The tool changes something and destroys nothing; a second call changes nothing more."""

CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)
"""The tool may overwrite or delete."""

_LIST_TTL_MS = 3_600_000
_MAX_MISTAKES = 5
_MAX_NAME_CHARS = 40
_MAX_ERROR_CHARS = 8000
_SHUTDOWN_S = 3
_ENDS_WITHIN_S = 30.0

THREADS_END_WITHIN_S = 3.0
"""For `serve`, when tools run in threads and what they leave half done is nothing."""

_LOOPBACK = "127.0.0.1"

_MAX_THREADS = 8
"""Calls of tools that are plain functions, at the same time; further ones wait for a place."""

_THREADS: RunVar[anyio.CapacityLimiter] = RunVar("threads of tools")


class _StrictTool(Tool):
    """A tool that names each wrong argument in a line, and does not run then."""

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            known = ", ".join(self.parameters.get("properties", ())) or "none"
            raise ToolError(f"{self.name} was not run: {_mistakes(error, known)}") from None
        return await super().run(arguments, context, convert_result)


def strict_tool(
    function: Callable[..., str] | Callable[..., Awaitable[str]],
    *,
    annotations: ToolAnnotations,
    explain: Callable[[Refused], str] = str,
) -> Tool:
    """An MCP tool from a function or coroutine function that returns text or raises `Refused`.

    A function runs in one of a few threads. Refusals become tool errors with the text of `explain`.
    Arguments that the function does not have are refused, so that a misspelt one is not dropped in
    silence. The function's docstring is the description; its parameters are described with
    `Annotated[..., Field(...)]`.
    """
    tool = _StrictTool.from_function(
        _answering(function, explain),
        description=inspect.getdoc(function),
        annotations=annotations,
        structured_output=False,
    )
    model = tool.fn_metadata.arg_model
    strict = create_model(model.__name__, __base__=model, __cls_kwargs__={"extra": "forbid"})
    return tool.model_copy(
        update={
            "fn_metadata": tool.fn_metadata.model_copy(update={"arg_model": strict}),
            "parameters": strict.model_json_schema(by_alias=True),
        }
    )


def make_server(name: str, instructions: str, tools: Iterable[Tool]) -> MCPServer:
    """A server whose listing is sorted by name and may be kept by clients for an hour.

    It never changes, and no client is promised news of it: one that waits for news waits in vain.
    """
    return MCPServer(
        name,
        version=_version(),
        instructions=instructions,
        tools=sorted(tools, key=lambda tool: tool.name),
        cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_TTL_MS, scope="public")},
        subscriptions=False,
        log_level="WARNING",
    )


def _version() -> str:
    """That of the distribution; clients show it, and the SDK hides a server without one."""
    try:
        return importlib.metadata.version("agentkit-radix")
    except importlib.metadata.PackageNotFoundError:  # run from files that nobody has installed
        return "unknown"


def make_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """A command line with `--http`, whose help is a module's docstring: its threat model too."""
    parser = argparse.ArgumentParser(
        prog=f"python -m agentkit_tools.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_http_option(parser)
    return parser


def add_http_option(parser: argparse.ArgumentParser) -> None:
    """Add `--http PORT`, which `serve` takes as `http_port`."""
    parser.add_argument(
        "--http",
        metavar="PORT",
        type=_port,
        help=f"serve streamable HTTP at http://{_LOOPBACK}:PORT/mcp instead of stdin and stdout; "
        "0 takes a free port and names it on stderr; every user of this machine can call it",
    )


def has_package(name: str) -> bool:
    """Whether a package of an extra is installed. Does not load it."""
    return importlib.util.find_spec(name) is not None


def serve(
    server: MCPServer, what: str, http_port: int | None, *, ends_within_s: float = _ENDS_WITHIN_S
) -> int:
    """Serve until stdin ends, or over HTTP until a signal. Returns the exit code.

    A call that still runs when stdin ends is cancelled. One in a thread cannot be: the process
    ends `ends_within_s` seconds later without it, which must be enough to see children gone.
    """
    if http_port is not None:
        return _serve_http(server, what, http_port)
    exit_after(sys.stdin.fileno(), ends_within_s)
    # The thread that reads stdin cannot be interrupted; what must last is in transactions.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if sys.stdin.isatty():
        log(f"serving {what} over stdin and stdout; Ctrl-C ends it")
    server.run("stdio")
    return 0


def log(text: str) -> None:
    """Say something to whoever started the server; stdout belongs to the protocol."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the log


def _serve_http(server: MCPServer, what: str, port: int) -> int:
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_LOOPBACK, port))
        except OSError as error:
            log(f"cannot listen on port {port}: {error.strerror}; 0 takes a free port")
            return 2
        config = uvicorn.Config(
            server.streamable_http_app(host=_LOOPBACK),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
        )
        listening.listen()
        log(f"serving {what} at http://{_LOOPBACK}:{listening.getsockname()[1]}/mcp")
        with contextlib.suppress(KeyboardInterrupt):
            anyio.run(uvicorn.Server(config).serve, [listening])
    return 0


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; use a number from 0 to 65535")
    return port


def _answering(
    function: Callable[..., str] | Callable[..., Awaitable[str]], explain: Callable[[Refused], str]
) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def answer_later(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except Refused as refused:
                raise ToolError(_bounded(explain(refused))) from None

        return answer_later

    @functools.wraps(function)
    async def answer(*args: Any, **kwargs: Any) -> Any:
        called = functools.partial(function, *args, **kwargs)
        try:
            return await anyio.to_thread.run_sync(called, limiter=_threads())
        except Refused as refused:
            raise ToolError(_bounded(explain(refused))) from None

    return answer


def _threads() -> anyio.CapacityLimiter:
    """Those of the calls. Stdin and stdout have others, or slow calls would stop all traffic."""
    try:
        return _THREADS.get()
    except LookupError:
        _THREADS.set(made := anyio.CapacityLimiter(_MAX_THREADS))
        return made


def _bounded(text: str) -> str:
    """A message, without its middle if it is long: a refusal may repeat a long argument."""
    if len(text) <= _MAX_ERROR_CHARS:
        return text
    kept = _MAX_ERROR_CHARS // 2
    return f"{text[:kept]} ... {text[-kept:]}"


def _mistakes(error: ValidationError, known: str) -> str:
    """What is wrong with which argument, without the values: they may be long."""
    mistakes = error.errors(include_url=False, include_input=False, include_context=False)
    shown = []
    for mistake in mistakes[:_MAX_MISTAKES]:
        name = shown_name(".".join(str(part) for part in mistake["loc"]))[:_MAX_NAME_CHARS]
        if mistake["type"] == "extra_forbidden":
            shown.append(f"{name}: there is no such argument; the arguments are: {known}")
        else:
            shown.append(f"{name}: {mistake['msg']}")
    more = [f"and {len(mistakes) - len(shown)} more"] if len(mistakes) > len(shown) else []
    return "; ".join([*shown, *more])
