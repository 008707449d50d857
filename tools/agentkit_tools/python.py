"""An MCP server that runs Python programs under limits: `python -m agentkit_tools.python`.

Each call is a fresh program: its variables, its processes and its folder are gone after it.

Threat model. Whoever calls the tool (a model, or a document that talks a model into something) is
hostile, and may run any program; whoever started the server is not.

With `--isolation namespaces`, the default, on Linux:

- A program sees no file of this machine but the system's programs and libraries (/usr, /lib, /bin)
  and its interpreter, all read-only. No home, no /etc, no /proc; it writes to memory only.
- It sees no network, not even this machine's, no other process, and no variable of the environment.
  On x86-64 and 64-bit ARM it is also refused: kinds of sockets that namespaces do not cover, the
  kernel's keys, memory outside of its address space (System V, `memfd`), watching and `flock`, and
  interfaces for programming and watching the kernel. On other processors nothing of this is, and
  such memory is not limited.
- It has no rights on top of an ordinary user's, and cannot gain any.
- All its processes end with it, however they hide: they are a world of their own, and it is closed.
  Nothing that it wrote is left.
- NOT protected: the kernel itself. A flaw there is a way out; run the server in a virtual machine
  if programs are written by someone who looks for such flaws. Programs compete for the machine's
  processors and memory up to their limits. `--memory` bounds each process, and all of a program
  together: that is looked at twenty times a second, so that for a moment a program can hold more.
  On top come `--disk`, and the kernel's buffers of pipes and sockets. Bound the server as a whole
  (a container, a cgroup) where that is too much.
- NOT hidden: how busy this machine is, how full its disks are, and when the system's programs were
  last read (their times of access, where the file system keeps them). A program may also hold
  shared `fcntl` locks on files that it reads, which delay whoever would lock them for writing.

With `--isolation limits`, for systems without namespaces:

- Time, memory (as above), number of processes, the size of each file and of the output are
  limited, the environment is empty, and processes are found and killed at the end. The folder is
  removed then, or by the next call when the server was killed. On Linux (x86-64 and 64-bit ARM)
  System V memory, semaphores and queues are refused, which would outlive it.
- NOT protected: a program runs as the user who started the server (or, when that is root, as a user
  of its own). It reads and writes the files which that user may, such as keys in the home folder;
  it reaches the network and this machine's services; it can fill the disk, and memory (/dev/shm,
  `memfd`), with many files; what it writes outside of its folder stays, and later calls can read
  it; it can kill the server and what else the user runs. Use it in a container or a virtual machine
  that has nothing to lose.

The server refuses to start when the system has not what the isolation needs. It speaks on stdout
and logs to stderr; it ends when its stdin does, and so do the programs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

from agentkit_tools._errors import Refused
from agentkit_tools._names import shown_name
from agentkit_tools._sandbox import Interpreter, Outcome, Sandbox
from agentkit_tools._serve import log, make_parser, make_server, serve, strict_tool

MAX_TIMEOUT_S = 120
_MAX_CODE_CHARS = 200_000
_MAX_WANTED = 10
_MAX_LISTED = 50
_MIB = 1024 * 1024
_PR_SET_DUMPABLE = 4

_CONFINED = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_UNCONFINED = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


def build_server(sandbox: Sandbox) -> MCPServer:
    """The server over one way of running programs."""
    is_isolated = sandbox.isolation == "namespaces"
    tool = strict_tool(
        PythonTools(sandbox).run_python, annotations=_CONFINED if is_isolated else _UNCONFINED
    )
    where = (
        "It has no network, and sees no files but its own."
        if is_isolated
        else "It is limited but NOT isolated: it can reach the network and the user's files."
    )
    described = tool.model_copy(update={"description": f"{tool.description}\n\n{where}"})
    return make_server("agentkit-python", "Runs Python programs under limits.", [described])


class PythonTools:
    """The tool. It returns text for a model, or raises `Refused` with what to do instead."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def run_python(
        self,
        code: Annotated[
            str, Field(min_length=1, max_length=_MAX_CODE_CHARS, description="a whole program")
        ],
        timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_S, description="seconds")] = 10,
        show_files: Annotated[
            list[str],
            Field(
                max_length=_MAX_WANTED,
                description="files that the program writes, whose text shall be shown",
            ),
        ] = [],  # noqa: B006 - never changed; a schema shows it as []
    ) -> str:
        """Run a Python program and show what it prints, and which files it leaves.

        Each call starts afresh: variables, files and processes are gone afterwards.
        """
        if any(len(name) > 300 or "\0" in name for name in show_files):
            raise Refused("names in show_files must have at most 300 characters, and no NUL")
        if not code.isascii() and any("\ud800" <= char <= "\udfff" for char in code):
            raise Refused("code has half a surrogate pair; write such characters as escapes")
        outcome = await self._sandbox.run(code, timeout_s=timeout_s, wanted=show_files)
        return _shown(outcome, is_isolated=self._sandbox.isolation == "namespaces")


def _shown(outcome: Outcome, *, is_isolated: bool) -> str:
    parts = [f"[{outcome.ended}{'' if is_isolated else '; limited, not isolated'}]"]
    for title, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if text:
            parts += [f"--- {title}", _clean(text)]
    if outcome.files:
        listed = [f"{shown_name(name)}  {size} bytes" for name, size in outcome.files[:_MAX_LISTED]]
        if len(outcome.files) > _MAX_LISTED:
            listed.append(f"[{len(outcome.files) - _MAX_LISTED} more]")
        parts += ["--- files", *listed]
    for name, text in outcome.contents.items():
        parts += [f"--- {shown_name(name)}", _clean(text)]
    return "\n".join(parts)


def _clean(text: str) -> str:
    """Text without its last line feed, and without characters that JSON cannot carry."""
    return text.removesuffix("\n").encode("utf-8", "replace").decode()


def main(arguments: list[str] | None = None) -> int:
    """Serve until stdin ends. Returns the exit code."""
    parser = make_parser("python", __doc__)
    parser.add_argument(
        "--isolation",
        choices=("namespaces", "limits"),
        default="namespaces",
        help="namespaces: no network, no files, no other processes; limits: none of that",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter that runs the programs, with its packages "
        "(default: this one, with the standard library alone)",
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=512,
        metavar="MIB",
        help="for each process, and for all of a program together (default: 512)",
    )
    parser.add_argument(
        "--disk", type=int, default=64, metavar="MIB", help="for files (default: 64)"
    )
    parser.add_argument(
        "--processes", type=int, default=16, metavar="N", help="and threads (default: 16)"
    )
    options = parser.parse_args(arguments)
    try:
        sandbox = Sandbox(
            isolation=options.isolation,
            interpreter=Interpreter.at(options.python) if options.python else Interpreter.own(),
            memory_bytes=options.memory * _MIB,
            disk_bytes=options.disk * _MIB,
            max_processes=options.processes,
        )
        anyio.run(sandbox.check)
    except (ValueError, Refused) as error:
        log(f"cannot serve: {error}{_advice(options.isolation)}")
        return 2
    _hide()
    return serve(build_server(sandbox), f"Python with {options.isolation}", options.http)


def _advice(isolation: str) -> str:
    if isolation == "limits" and os.getuid() == 0:
        return (
            "; started by root, programs run as another user, who must be able to run the "
            "interpreter: name such a one with --python, or start the server as an ordinary user"
        )
    if isolation == "limits":
        return ""
    return (
        "; namespaces need Linux 5.12 or newer and, in a container, the right to make them. "
        "--isolation limits does without, and then programs can do what you can"
    )


def _hide() -> None:
    """Let no process of the same user look into this one: its environment, its memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
