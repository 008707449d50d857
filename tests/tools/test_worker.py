"""Child processes for single requests: whatever they do, they answer or fail, and are gone."""

from __future__ import annotations

import logging
import time

import anyio
import pytest

from agentkit_tools._orphans import descendants
from agentkit_tools._worker import Worker, WorkerFailed
from tests.tools.programs import marked

pytestmark = pytest.mark.timeout(60)

MODULE = "_markdown_worker"
"""Any module of the package with a `main`; the tests of limits never get that far."""


def worker(**settings: object) -> Worker:
    given: dict[str, object] = {"module": MODULE, "timeout_s": 20.0, "max_memory_bytes": 2**30}
    return Worker(**(given | {"with_packages": True} | settings))  # type: ignore[arg-type]


def children() -> set[int]:
    """Those of this process that serve requests; it may have others, such as a database."""
    return descendants() & set(marked(f"{MODULE} import main"))


REQUEST = {"html": "<b>x</b>", "url": "http://x/"}


async def test_a_request_is_answered_and_the_child_is_gone(caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await worker().run(REQUEST) == {"form": "Markdown", "text": "**x**"}
    assert not children()
    assert caplog.records == []


async def test_a_child_that_takes_too_long_fails_by_its_time(monkeypatch):
    monkeypatch.setattr("agentkit_tools._worker._GRACE_S", 0.0)
    started = time.monotonic()
    with pytest.raises(WorkerFailed, match="time"):
        await worker().run(REQUEST, timeout_s=0.01)
    assert time.monotonic() - started < 10
    assert not children()


@pytest.mark.parametrize(
    ("settings", "request_sent"),
    [
        ({"max_memory_bytes": 2 * 2**20}, REQUEST),
        ({"module": "_no_such_module"}, REQUEST),
        ({}, {"html": 5}),
    ],
)
async def test_a_child_that_dies_fails_by_memory_or_a_crash(settings, request_sent):
    with pytest.raises(WorkerFailed, match="memory or a crash"):
        await worker(**settings).run(request_sent)


async def test_a_reply_that_is_too_long_is_a_failure():
    with pytest.raises(WorkerFailed, match="size"):
        await worker(max_reply_bytes=100).run({"html": "x" * 1000, "url": "http://x/"})


async def test_no_more_children_run_than_there_are_places():
    few = worker(max_running=1)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(few.run, REQUEST)
        n_seen = [len(await anyio.to_thread.run_sync(children)) for _ in range(20)]
    assert max(n_seen) <= 1
