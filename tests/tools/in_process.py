"""Requests to child processes, answered in this one: for what needs no limits, and many calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentkit_tools import _sql_worker
from agentkit_tools._worker import Worker


def answer_sql_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the end of the test."""

    async def run(
        worker: Worker, request: Mapping[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(json.dumps(_sql_worker._answer(request)))
        return reply

    monkeypatch.setattr(Worker, "run", run)
