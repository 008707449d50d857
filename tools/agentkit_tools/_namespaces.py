"""Linux namespaces for `_jail`: a process tree, a network and a file system of its own.

Called in the supervisor, which has one thread. As an ordinary user everything hangs on a user
namespace; as root it does without one, and the program gets a user of its own instead.

The new root holds the system's programs and libraries and the interpreter, all read-only, five
devices, and one file system in memory whose size bounds all that the program writes. There is no
/proc, no /sys, no home and no /etc. The program is confined with `chroot` on top, below which Linux
makes no user namespaces, so it cannot get rights in one of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x0002_0000, 0x0400_0000, 0x0800_0000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16_384, 1 << 18
_MNT_DETACH = 2
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_MAX_FILES = 4096

JAIL = "/jail"
"""The program's root, as the supervisor sees it afterwards."""


def enter(binds: list[str], *, size_bytes: int, owner: int | None) -> None:
    """Put this process into new namespaces with a new root; its next child is process 1 there.

    Args:
        binds: folders that the program needs besides the system's, at their own places.
        size_bytes: of all that the program writes.
        owner: who the program's folders belong to; None: this process's user.

    Raises:
        OSError: the system allows no such namespaces, or lacks a part of them.
    """
    uid, gid = os.getuid(), os.getgid()
    # When the machine runs out of memory, this tree goes first.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    flags = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
    _call("unshare", flags | (_CLONE_NEWUSER if uid else 0))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    socket.sethostname("sandbox")
    _call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    sources = _sources(binds)
    options = f"size={size_bytes},nr_inodes={_MAX_FILES},mode=755".encode()
    _call("mount", b"tmpfs", b"/tmp", b"tmpfs", _MS_NOSUID | _MS_NODEV, options)
    os.mkdir("/tmp/old")
    os.mkdir(f"/tmp{JAIL}")
    _call("pivot_root", b"/tmp", b"/tmp/old")
    os.chdir("/")
    _fill(sources)
    for name in ("work", "tmp", "dev/shm"):
        folder = f"{JAIL}/{name}"
        os.mkdir(folder, 0o700)
        if owner is not None:
            os.chown(folder, owner, owner)
    _call("umount2", b"/old", _MNT_DETACH)
    os.rmdir("/old")


def _sources(binds: list[str]) -> dict[str, str]:
    """What to show at which place: a folder, or a link as it is. Outer folders come first."""
    wanted = [*(path for path in _SYSTEM if os.path.lexists(path)), *binds]
    sources: dict[str, str] = {}
    for path in sorted(wanted, key=len):
        if not any(path == outer or path.startswith(f"{outer}/") for outer in sources):
            is_link = path in _SYSTEM and os.path.islink(path)
            sources[path] = f"link:{os.readlink(path)}" if is_link else os.path.realpath(path)
    return sources


def _fill(sources: dict[str, str]) -> None:
    for path, source in sources.items():
        target = f"{JAIL}{path}"
        if source.startswith("link:"):
            os.symlink(source.removeprefix("link:"), target)
            continue
        os.makedirs(target, 0o755)
        _bind(f"/old{source}", target, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV)
    os.mkdir(f"{JAIL}/dev", 0o755)
    for name in _DEVICES:
        Path(f"{JAIL}/dev/{name}").touch()
        # Read-only devices are written to as ever, but their owners and times cannot be changed.
        _bind(f"/old/dev/{name}", f"{JAIL}/dev/{name}", _ATTR_RDONLY | _ATTR_NOSUID)


def _bind(source: str, target: str, attributes: int) -> None:
    _call("mount", source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None)
    # attr_set, attr_clr, propagation, userns_fd
    settings = struct.pack("QQQQ", attributes, 0, _MS_PRIVATE, 0)
    _call(
        "syscall",
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_long(_AT_FDCWD),
        target.encode(),
        ctypes.c_long(_AT_RECURSIVE),
        settings,
        ctypes.c_long(len(settings)),
    )


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    longs = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if getattr(libc, name)(*longs) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
