"""Tells the user how a download goes: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

Advance = Callable[[int], None]
"""Called with the number of bytes that are there now."""


class Reporter(Protocol):
    """Where messages and progress go."""

    def say(self, message: str) -> None:
        """One line."""

    def track(self, label: str, total_bytes: int) -> AbstractContextManager[Advance]:
        """Show one download while the body runs."""


class SilentReporter:
    """Says nothing."""

    def say(self, message: str) -> None:
        """Nothing."""

    @contextmanager
    def track(self, label: str, total_bytes: int) -> Iterator[Advance]:
        """Nothing."""
        yield lambda _: None


class LineReporter:
    """Plain lines, for logs: start, each quarter, end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, message: str) -> None:
        """Write one line."""
        print(message, file=self._stream, flush=True)

    @contextmanager
    def track(self, label: str, total_bytes: int) -> Iterator[Advance]:
        """Write a line at each quarter."""
        said = -1

        def advance(present_bytes: int) -> None:
            nonlocal said
            quarter = min(4 * present_bytes // max(total_bytes, 1), 4)
            if quarter > said:
                said = quarter
                megabytes = f"{present_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB"
                self.say(f"{label}: {25 * quarter}% ({megabytes})")

        yield advance


class BarReporter:
    """A progress bar on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, message: str) -> None:
        """Write one line."""
        self._console.print(message, highlight=False, markup=False)

    @contextmanager
    def track(self, label: str, total_bytes: int) -> Iterator[Advance]:
        """Draw a bar while the body runs."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(label, total=total_bytes)
            yield lambda present_bytes: bar.update(task, completed=present_bytes)


def reporter(enabled: bool) -> Reporter:
    """The reporter for standard error as it is now."""
    if not enabled:
        return SilentReporter()
    console = Console(stderr=True)
    return BarReporter(console) if console.is_terminal else LineReporter(sys.stderr)
