"""One engine per process and model, whoever asks first.

Engines hold gigabytes and one radix tree that all agents share; two engines of one model would
share nothing. So they live in a registry, and not in the agents that use them.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from agentkit.errors import ConfigurationError

Options = Mapping[str, str | int | float | bool | None]
"""How an engine is loaded, e.g. `{"threads": 2}`."""


class Engine(Protocol):
    """What the registry needs to know of an engine."""

    def close(self) -> None:
        """Stop it and free its memory. Idempotent."""
        ...


E = TypeVar("E", bound=Engine)


class EngineRegistry(Generic[E]):
    """Loads each model once and keeps it until `close`. Safe from any thread and event loop.

    Args:
        load: loads a model; blocking, called in a thread of its own.
    """

    def __init__(self, load: Callable[[str, Options], E]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry[E]] = {}
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    async def get(self, spec: str, options: Options) -> E:
        """Return the engine of a model; load it if nobody has.

        Callers that come while it loads wait for the same load. A caller that is cancelled does not
        stop the load. After a failed load the next caller tries again.

        Raises:
            ConfigurationError: the model is loaded already, with other options.
            Exception: whatever the load raised.
        """
        future = self._start(_same_spelling(spec), dict(options))
        await _wait(future)
        return future.result()

    def ready(self, spec: str) -> E | None:
        """Return the engine of a model that is loaded; None if it is not (yet)."""
        with self._lock:
            entry = self._entries.get(_same_spelling(spec))
        if entry is None or not entry.future.done() or entry.future.exception() is not None:
            return None
        return entry.future.result()

    def close(self) -> None:
        """Close all engines. The registry can be used again afterwards."""
        with self._lock:
            entries, self._entries = self._entries, {}
        for entry in entries.values():
            entry.future.add_done_callback(_close_engine)

    def _start(self, spec: str, options: Options) -> Future[E]:
        with self._lock:
            entry = self._entries.get(spec)
            if entry is None:
                entry = self._entries[spec] = _Entry(options)
                # A daemon thread: an interrupted program must not wait for a download to end.
                threading.Thread(
                    target=self._run, args=(spec, entry), name=f"load {spec}", daemon=True
                ).start()
            elif entry.options != options:
                raise ConfigurationError(
                    f"model {spec!r} is loaded with options {entry.options!r}, not {options!r}; "
                    "all agents of a process share one engine per model: give them the same options"
                )
            return entry.future

    def _run(self, spec: str, entry: _Entry[E]) -> None:
        try:
            engine = self._load(spec, entry.options)
        except BaseException as error:
            with self._lock:
                if self._entries.get(spec) is entry:
                    del self._entries[spec]
            entry.future.set_exception(error)
        else:
            entry.future.set_result(engine)

    def _forget(self) -> None:
        """In a forked child no engine thread runs: calls would wait for ever."""
        self._lock = threading.Lock()
        self._entries = {}


class _Entry(Generic[E]):
    """A model that is loading or loaded."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.future: Future[E] = Future()


def _same_spelling(spec: str) -> str:
    """One file, one engine, however its path is written."""
    path = Path(spec).expanduser()
    return str(path.resolve()) if path.exists() else spec


async def _wait(future: Future[E]) -> None:
    """Wait without handing our cancellation to the load, which others wait for too."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: Future[E]) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    await done.wait()


def _close_engine(future: Future[E]) -> None:
    if future.exception() is None:
        future.result().close()
