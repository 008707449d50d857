"""Which calls of the kernel a confined program may make: all but a few that nothing else confines.

Network namespaces do not cover all kinds of sockets: with those of virtual machines (`AF_VSOCK`) a
program would talk to the machine's host. The keys that the kernel keeps for a user, and interfaces
for watching and programming the kernel, are of no use to a program and have often had flaws.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _FAIL, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_X32 = 0x4000_0000
"""Numbers from here are a second set of the same calls."""

_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6 and netlink: those that a network namespace confines."""

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_DENIED = {
    # add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, io_uring_setup, setns and
    # unshare
    "x86_64": (248, 249, 250, 298, 321, 323, 425, 308, 272),
    "aarch64": (217, 218, 219, 241, 280, 282, 425, 268, 97),
}

_Instruction = tuple[int, int, int, int]
"""What to do, how many instructions to skip when it holds and when not, and a value."""


def confine() -> None:
    """Give up these calls for good, for this process and all it starts.

    Does nothing on processors other than x86-64 and 64-bit ARM.

    Raises:
        OSError: the system has no such filters.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        return
    packed = b"".join(struct.pack("HBBI", *each) for each in _program(machine))
    instructions = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack("HxxxxxxP", len(packed) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), program, zero, zero) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(machine: str) -> list[_Instruction]:
    made: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]
    for number in _DENIED[machine]:
        made += _when(number, [(_RETURN, 0, 0, _FAIL | errno.EPERM)])
    made += _when(_SOCKET[machine], _socket())
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _socket() -> list[_Instruction]:
    made: list[_Instruction] = [(_LOAD, 0, 0, _FIRST_ARGUMENT_AT)]
    for family in _FAMILIES:
        made += _when(family, [(_RETURN, 0, 0, _ALLOW)])
    return [*made, (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT)]


def _when(value: int, then: list[_Instruction]) -> list[_Instruction]:
    """Do something when the loaded word has a value; else go on."""
    return [(_IF_EQUAL, 0, len(then), value), *then]
