"""An MCP transport over a process's pipes that survives what servers print.

The MCP SDK's own stdio transport splits lines in quadratic time, lets a call hang for ever when
its answer cannot be parsed, and leaves grandchildren alive. This one plugs into the same seam (a
pair of streams).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.links.process import ServerProcess
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.transport import LOST, theirs
from agentkit.toolset.mcp.links.unanswered import Unanswered
from agentkit.toolset.mcp.links.wire import (
    Broken,
    Junk,
    LineSplitter,
    Message,
    RequestId,
    is_bearable,
    read_line,
    sendable,
)
from agentkit.toolset.mcp.server import McpServer

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

    _Received = SessionMessage | Exception

_READ_BYTES = 2**16
_STDERR_BYTES = 8 * 1024

_WORDS_CHARS = 1000
"""How much of stderr a message repeats."""

_DRAIN_S = 0.25
"""How long the last output of an ended process may take; a grandchild may hold the pipe open."""


async def start_server(server: McpServer) -> StdioTransport:
    """Start the server's process.

    Raises:
        McpConnectError: it cannot be started.
    """
    cwd = None if server.cwd is None else Path(server.cwd)
    try:
        process = await ServerProcess.start(server.command, server.process_env, cwd)
    except (OSError, ValueError) as error:
        problem = _why_not_started(server, error)
        raise McpConnectError(server.alias, f"cannot be started: {problem}") from error
    return StdioTransport(process, server.max_message_bytes, ServerSecrets(server))


def _why_not_started(server: McpServer, error: Exception) -> str:
    """Python's own error of a folder that is missing reads as if the program were."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        return str(error)
    if server.cwd is not None and not os.path.isdir(server.cwd):
        return f"cwd {str(server.cwd)!r} is no folder that is there; make it, or set another cwd"
    program = server.command[0]
    if os.path.dirname(program) or shutil.which(program, path=server.process_env.get("PATH")):
        return str(error)
    if " " in program:
        return f"there is no program {program!r}; command is a list: {shlex.split(program)!r}"
    return f"there is no program {program!r} in its PATH; install it, or give its whole path"


class StdioTransport:
    """The stream pair of one server process, as an async context manager; leaving ends the process.

    Enter and leave it in one task. `closed` is set as soon as no more messages can come.
    """

    def __init__(
        self, process: ServerProcess, max_message_bytes: int, secrets: ServerSecrets
    ) -> None:
        self.secrets = secrets
        self.closed = asyncio.Event()
        self.hurry = asyncio.Event()
        """Set it to skip the polite part of ending the process."""
        self.n_junk_lines = 0
        self.first_junk: str | None = None
        self.fault: str | None = None
        self.unanswered = Unanswered()
        self._writing_since_s: float | None = None
        self._process = process
        self._splitter = LineSplitter(max_message_bytes)
        self._pending: set[RequestId] = set()
        self._stderr: deque[bytes] = deque()
        self._stderr_bytes = 0
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The last part of what the server wrote to stderr."""
        words = b"".join(self._stderr)[-_STDERR_BYTES:].decode("utf-8", "replace")
        return self.secrets.hidden(words).strip()

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[_Received], MemoryObjectSendStream[SessionMessage]]:
        import anyio
        from mcp.shared.message import SessionMessage

        received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent = anyio.create_memory_object_stream[SessionMessage](0)
        self._to_session, self._from_session = received[0], sent[1]
        self._ends = (*received, *sent)
        self._tasks = [
            asyncio.create_task(self._read_stdout()),
            asyncio.create_task(self._read_stderr()),
            asyncio.create_task(self._write_stdin()),
            asyncio.create_task(self._watch_exit()),
        ]
        return received[1], sent[0]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nothing reads the session's end any more, so the reader must not wait for it: closing
        # makes it drop what still comes, and a server that is stuck in writing can go on to its
        # exit.
        for end in self._ends:
            end.close()
        if kind is not None:
            self.hurry.set()
        try:
            await self._process.stop(self.hurry)
        finally:
            self.closed.set()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def is_stuck(self, limit_s: float) -> bool:
        """Whether the server has for this long not taken the message that is being written."""
        since_s = self._writing_since_s
        return since_s is not None and asyncio.get_running_loop().time() - since_s >= limit_s

    def give_up(self) -> None:
        """End the connection to a server that does not read; all requests fail at once."""
        self.fault = "stopped reading its input and was ended"
        self.hurry.set()
        self._end_of_messages()

    async def problem(self) -> str:
        """Why no more messages come, said of the server, with its last words."""
        stderr, exit_watch = self._tasks[1], self._tasks[3]
        await asyncio.wait([stderr, exit_watch], timeout=2 * _DRAIN_S)
        if self.fault is not None:
            problem, silence = self.fault, ""
        elif (code := self._process.exit_code) is not None:
            problem, silence = f"ended with exit code {code}", " without a word"
        else:
            problem, silence = "closed the connection", " without a word"
        words = self.last_words[-_WORDS_CHARS:]
        return f"{problem}; its stderr says: {words}" if words else f"{problem}{silence}"

    async def _read_stdout(self) -> None:
        try:
            while data := await self._process.stdout.read(_READ_BYTES):
                for line in self._splitter.feed(data):
                    await self._deliver(read_line(line, self._pending))
        finally:
            self._end_of_messages()

    async def _deliver(self, line: Message | Broken | Junk) -> None:
        import pydantic
        from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

        match line:
            case Junk(text):
                self._note_junk(text)
            case Broken(request_id, problem):
                error = ErrorData(code=LOST, message=f"sent {problem}")
                await self._send(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
            case Message(value):
                try:
                    message = jsonrpc_message_adapter.validate_python(value, by_name=False)
                except pydantic.ValidationError:
                    await self._deliver(self._no_message(value))
                else:
                    if is_bearable(message) and self.unanswered.takes(message):
                        await self._send(theirs(message))

    def _no_message(self, value: dict[str, object]) -> Broken | Junk:
        """What to make of a JSON object that is no JSON-RPC message."""
        request_id = value.get("id")
        if isinstance(request_id, int | str) and request_id in self._pending:
            return Broken(request_id, "an answer that is no JSON-RPC message")
        return Junk(repr(value)[:_READ_BYTES])

    async def _send(self, message: JSONRPCMessage) -> None:
        """Hand a message to the session; after the session's end nobody waits for it."""
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCError, JSONRPCResponse

        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._pending.discard(message.id)
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._to_session.send(SessionMessage(message))

    async def _write_stdin(self) -> None:
        import anyio

        stdin = self._process.stdin
        try:
            async for item in self._from_session:
                self._note_sent(item.message)
                text = _text_of(item.message)
                self._writing_since_s = asyncio.get_running_loop().time()
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
                self._writing_since_s = None
                self.unanswered.note_sent(item.message)
        except (ConnectionError, anyio.ClosedResourceError):
            # The server closed its stdin. It may still live, but can hear nothing more.
            pass
        except Exception as error:
            what = self.secrets.hidden(str(error))
            self.fault = f"could not be sent a message ({type(error).__name__}: {what})"
            self.hurry.set()
        finally:
            # Whatever ended the writing: who waits for an answer, or to write, must not hang.
            self._end_of_messages()

    def _note_sent(self, message: JSONRPCMessage) -> None:
        """Keep track of the requests that wait for an answer."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        match message:
            case JSONRPCRequest(id=request_id):
                self._pending.add(request_id)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": given}):
                self._pending.discard(given)
            case _:
                return

    async def _read_stderr(self) -> None:
        while data := await self._process.stderr.read(_READ_BYTES):
            self._stderr.append(data)
            self._stderr_bytes += len(data)
            while self._stderr_bytes - len(self._stderr[0]) > _STDERR_BYTES:
                self._stderr_bytes -= len(self._stderr.popleft())

    async def _watch_exit(self) -> None:
        await self._process.wait_exit()
        await asyncio.wait([self._tasks[0]], timeout=_DRAIN_S)
        self._end_of_messages()

    def _end_of_messages(self) -> None:
        """Tell the session that the connection is over; its waiting requests fail at once."""
        self.closed.set()
        self._to_session.close()
        # Those that wait for their turn to write, too.
        self._from_session.close()

    def _note_junk(self, text: str) -> None:
        if text.strip():
            self.n_junk_lines += 1
            self.first_junk = self.first_junk or self.secrets.hidden(text.strip())[:200]


def _text_of(message: JSONRPCMessage) -> str:
    """A message as JSON. An answer to a server repeats its id, which may be no text in UTF-8."""
    from pydantic_core import PydanticSerializationError

    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True)
    except PydanticSerializationError:
        return json.dumps(sendable(message.model_dump(by_alias=True, exclude_unset=True)))
