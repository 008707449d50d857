"""Which calls of the kernel a program may make: all but a few that nothing else confines.

- Network namespaces do not cover all kinds of sockets: with those of virtual machines (`AF_VSOCK`)
  a program would talk to the machine's host, and some of the kernel's broadcasts (`netlink`) reach
  every network that root made.
- Memory that belongs to no address space escapes the limit of memory, and some of it stays when
  the program has ended.
- The system's files are read-only to a program, and still the machine's own: who watches or locks
  them learns what the machine runs, or holds it up.
- The kernel's keys, and interfaces for watching and programming the kernel, are of no use to a
  program and have often had flaws.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable

_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT, _ARGUMENT_BYTES = 0, 4, 16, 8
_ALLOW, _FAIL, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_X32 = 0x4000_0000
"""Numbers from here are a second set of the same calls."""

_FAMILIES = (1, 2, 10)
"""Unix, IPv4 and IPv6: those that a network namespace confines."""

_NETLINK, _NETLINK_ROUTE = 16, 0
"""Of netlink only what tells interfaces and addresses, which resolving names asks for."""

_WATCHING = (1024, 1026)
"""Of `fcntl`: to be told when somebody opens a file, or changes a folder."""

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_SOCKETS = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""socket and socketpair"""

_FCNTL = {"x86_64": 72, "aarch64": 25}
_LASTING = {
    # What stays with the kernel when its maker has ended: shmget, semget, msgget, mq_open, and
    # keys: add_key, request_key and keyctl.
    "x86_64": (29, 64, 68, 240, 248, 249, 250),
    "aarch64": (194, 190, 186, 180, 217, 218, 219),
}
_DENIED = {
    "x86_64": (
        # perf_event_open, bpf, userfaultfd, io_uring_setup, setns, unshare
        *(298, 321, 323, 425, 308, 272),
        # Memory outside of address spaces: memfd_create, memfd_secret, vmsplice, io_setup
        *(319, 447, 278, 206),
        # Watching and locking: inotify_init, inotify_init1, fanotify_init, cachestat, syslog, flock
        *(253, 294, 300, 451, 103, 73),
    ),
    "aarch64": (
        # The same; there is no inotify_init.
        *(241, 280, 282, 425, 268, 97),
        *(279, 447, 75, 0),
        *(26, 262, 451, 116, 32),
    ),
}

_Instruction = tuple[int, int, int, int]
"""What to do, how many instructions to skip when it holds and when not, and a value."""


def confine() -> None:
    """Give up all calls that namespaces do not cover, for this process and all it starts.

    Does nothing on processors other than x86-64 and 64-bit ARM.

    Raises:
        OSError: the system has no such filters.
    """
    if (machine := os.uname().machine) in _ARCHITECTURES:
        refused = (*_LASTING[machine], *_DENIED[machine])
        _load(_program(machine, refused, _arguments(machine)))


def refuse_lasting() -> None:
    """Give up the calls that make what stays with the kernel after the program, and no others.

    Does nothing on processors other than x86-64 and 64-bit ARM, and on systems other than Linux.

    Raises:
        OSError: the system has no such filters.
    """
    if sys.platform == "linux" and (machine := os.uname().machine) in _ARCHITECTURES:
        _load(_program(machine, _LASTING[machine], []))


def _load(instructions: list[_Instruction]) -> None:
    packed = b"".join(struct.pack("HBBI", *each) for each in instructions)
    held = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack("HxxxxxxP", len(packed) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), program, zero, zero) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(machine: str, refused: Iterable[int], rest: list[_Instruction]) -> list[_Instruction]:
    made: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]
    for number in refused:
        made += _when(number, [(_RETURN, 0, 0, _FAIL | errno.EPERM)])
    return [*made, *rest, (_RETURN, 0, 0, _ALLOW)]


def _arguments(machine: str) -> list[_Instruction]:
    """The calls whose arguments decide."""
    made: list[_Instruction] = []
    for number in _SOCKETS[machine]:
        made += _when(number, _socket())
    return [*made, *_when(_FCNTL[machine], _fcntl())]


def _socket() -> list[_Instruction]:
    made = [_argument(0)]
    for family in _FAMILIES:
        made += _when(family, [(_RETURN, 0, 0, _ALLOW)])
    route = [_argument(2), *_when(_NETLINK_ROUTE, [(_RETURN, 0, 0, _ALLOW)])]
    return [*made, *_when(_NETLINK, route), (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT)]


def _fcntl() -> list[_Instruction]:
    made = [_argument(1)]
    for command in _WATCHING:
        made += _when(command, [(_RETURN, 0, 0, _FAIL | errno.EPERM)])
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _argument(position: int) -> _Instruction:
    """Load its lower half, which is all that the kernel reads of an `int`."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + position * _ARGUMENT_BYTES)


def _when(value: int, then: list[_Instruction]) -> list[_Instruction]:
    """Do something when the loaded word has a value; else go on."""
    return [(_IF_EQUAL, 0, len(then), value), *then]
