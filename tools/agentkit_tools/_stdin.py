"""A server over stdio ends when its stdin does, also while a call runs that nobody can stop."""

from __future__ import annotations

import os
import select
import threading
import time

_PAUSE_S = 0.05
_READ_WITHIN_S = 30.0


def exit_after(descriptor: int, grace_s: float) -> None:
    """Let a thread end this process `grace_s` seconds after the other end has closed.

    That is for calls in threads, which cannot be cancelled: the event loop would wait for them. A
    server that has ended by itself before is not touched. The grace starts when everything that
    was sent has been read, or after 30 seconds; a file never closes, so it ends nothing here.
    """
    if hasattr(select, "poll"):  # not on Windows, where a long call ends first
        watched = os.dup(descriptor)  # the transport puts something else in the descriptor's place
        threading.Thread(target=_watch, args=(watched, grace_s), daemon=True).start()


def _watch(descriptor: int, grace_s: float) -> None:
    _wait_for_end(descriptor)
    time.sleep(grace_s)
    os._exit(0)  # without a word: nobody may be there to take it


def _wait_for_end(descriptor: int) -> None:
    poll = select.poll()
    hang_up = select.POLLHUP | getattr(select, "POLLRDHUP", 0)
    poll.register(descriptor, hang_up)
    poll.poll()
    deadline = time.monotonic() + _READ_WITHIN_S
    while _has_data(descriptor) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def _has_data(descriptor: int) -> bool:
    import fcntl
    import struct
    import termios

    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
    return bool(count)
