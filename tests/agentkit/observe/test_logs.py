"""Structured logs: of which run, without what was said, without secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import Agent, tool
from agentkit.caching.ledger.amounts import AtLeast
from agentkit.errors import ModelError, RunError
from agentkit.models import FallbackModel
from agentkit.observe.logs import JsonFormatter, RunFilter, configure
from agentkit.observe.run_log import RunLog, cost_fields
from agentkit.observe.secrets import without_secrets
from agentkit.observe.several import Several
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.observe.spans import Seen
from tests.agentkit.priced import PricedModel


class Log:
    """What was written."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = configure(self._stream)

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def of(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["message"] == message]


@pytest.fixture
def log() -> Iterator[Log]:
    logger = logging.getLogger("agentkit")
    before = logger.level, logger.propagate
    written = Log()
    yield written
    logger.removeHandler(written.handler)
    logger.level, logger.propagate = before
    logger.setLevel(before[0])


class Reader(Agent):
    """You read."""


class Lead(Agent):
    """You lead."""

    subagents = (Reader,)

    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        logging.getLogger("agentkit.tools").info("adding")
        return a + b

    @tool
    def fail(self) -> str:
        """Fail."""
        raise ValueError("the word is swordfish")

    @tool(requires_approval=True)
    def pay(self) -> str:
        """Pay."""
        return ""


async def test_each_run_request_and_call_has_a_record_that_says_what_it_used(log: Log) -> None:
    model = ScriptedModel(
        {"lead": [Call("delegate_to_reader", {"task": "x"}), "done"], "reader": ["read"]}
    )
    result = await Lead(model=model, telemetry=RunLog()).run("hello", session="s")
    assert [(line["message"], line["path"]) for line in log.lines] == [
        ("request ended", "lead"),
        ("request ended", "lead/reader"),
        ("run done", "lead/reader"),
        ("tool call done", "lead"),
        ("request ended", "lead"),
        ("run done", "lead"),
    ]
    last = log.lines[-1]
    assert (last["level"], last["logger"]) == ("info", "agentkit.run")
    assert (last["run_id"], last["session"], last["agent"]) == (result.run_id, "s", "lead")
    assert last["requests"] == 3
    assert last["hit_ratio"] == result.usage.hit_ratio
    assert log.lines[0]["model"] == "scripted"
    assert log.lines[0]["input_tokens"] == result.requests[0].usage.input_tokens


async def test_what_a_tool_logs_is_of_the_call_that_runs_it(log: Log) -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "done"])
    result = await Lead(model=model, telemetry=RunLog()).run("x")
    [line] = log.of("adding")
    assert (line["run_id"], line["tool"], line["call_id"]) == (result.run_id, "add", "call_1")


async def test_runs_at_once_do_not_mix(log: Log) -> None:
    def respond(request: Any) -> Any:
        said = len(request.context.messages)
        return Call("add", {"a": 1, "b": 2}) if said == 1 else "done"

    agent = Lead(model=ScriptedModel(respond), telemetry=RunLog())
    results = await asyncio.gather(*(agent.run("x") for _ in range(10)))
    for result in results:
        lines = [line["message"] for line in log.lines if line["run_id"] == result.run_id]
        assert sorted(lines) == sorted(
            ["request ended", "adding", "tool call done", "request ended", "run done"]
        )


async def test_a_failure_is_a_warning_and_quotes_nothing_that_was_said(log: Log) -> None:
    model = ScriptedModel([Call("fail"), "the answer is xylophone"])
    await Lead(model=model, telemetry=RunLog()).run("my code is marzipan")
    [failed] = log.of("tool call failed")
    assert failed["level"] == "warning"
    [traced] = [line for line in log.lines if "error" in line]
    assert traced["error"]["type"] == "ValueError"
    assert any("test_logs.py" in place for place in traced["error"]["stack"])
    for said in ("swordfish", "xylophone", "marzipan"):
        assert said not in log.text


async def test_a_model_that_fails_and_a_run_that_waits_say_so(log: Log) -> None:
    with pytest.raises(RunError):
        await Lead(model=ScriptedModel([ModelError("down")]), telemetry=RunLog()).run("x")
    assert log.of("request broke off")[0]["error_type"] == "ModelError"
    assert log.of("run failed")[0]["level"] == "warning"
    with pytest.raises(RunError):
        await Lead(model=ScriptedModel([Call("pay")]), telemetry=RunLog()).run("x")
    assert log.of("tool call waits")
    assert log.of("run paused")


async def test_a_fallback_and_an_invented_tool_are_logged_without_what_was_said(log: Log) -> None:
    quoting = ModelError("messages.0: 'xylophone' is not allowed")
    other = ScriptedModel([Call("xylophone"), "done"], label="other")
    model = FallbackModel([ScriptedModel([quoting]), other])
    await Lead(model=model, telemetry=RunLog()).run("xylophone")
    [failed] = log.of("scripted failed, and is left alone")
    assert failed["error"]["type"] == "ModelError"
    [call] = log.of("tool call failed")
    assert call["tool"] == "unknown"
    assert "xylophone" not in log.text


async def test_a_cancelled_run_is_logged_as_cancelled(log: Log) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(name="a", model=ScriptedModel([Call("wait")]), tools=[wait], telemetry=RunLog())
    task = asyncio.create_task(agent.run("x"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [run] = log.of("run cancelled")
    assert run["status"] == "cancelled"


async def test_with_traces_each_record_names_its_span(log: Log) -> None:
    seen = Seen()
    telemetry = Several(seen.telemetry, RunLog())
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "done"])
    await Lead(model=model, telemetry=telemetry).run("x")
    [line] = log.of("adding")
    call = seen.one("execute_tool add")
    assert line["span_id"] == f"{call.context.span_id:016x}"
    assert line["trace_id"] == f"{call.context.trace_id:032x}"


def test_a_formatter_writes_texts_of_errors_only_if_it_is_told_to() -> None:
    try:
        raise ValueError("swordfish")
    except ValueError as error:
        record = logging.LogRecord(
            "agentkit.x", logging.ERROR, "f", 1, "it broke", None, (ValueError, error, None)
        )
    RunFilter().filter(record)
    assert "swordfish" not in JsonFormatter().format(record)
    assert json.loads(JsonFormatter(content=True).format(record))["error"]["text"] == "swordfish"


SECRET = "Zx9QwErTy7UiOpAs5DfGhJk3"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f'{{"authorization": "Bearer {SECRET}"}}',
        f"api_key={SECRET}",
        f"ANTHROPIC_API_KEY={SECRET}",
        f'"x-api-key": "{SECRET}"',
        f"https://host/v1?key={SECRET}&alt=sse",
        f"password: {SECRET}",
        f"client_secret={SECRET}",
        f"access_token: '{SECRET}'",
        f"sk-ant-api03-{SECRET}",
        f"sk-proj-{SECRET}",
        f"ghp_{SECRET}",
        f"AIza{SECRET}",
        f"postgresql://user:{SECRET}@host/db",
        f"bearer {SECRET}",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    assert SECRET not in without_secrets(text)
    record = logging.LogRecord("agentkit.x", logging.ERROR, "f", 1, "%s", (text,), None)
    line = JsonFormatter().format(record)
    assert SECRET not in line
    json.loads(line)


@pytest.mark.parametrize(
    "text",
    [
        "1,234 tokens in, 88% read",
        '{"input_tokens": 12, "lost_tokens": 1234567}',
        "agent 'desk' asks the model sk",
        "https://host:8000/v1#org/model",
        "2026-11-29T10:00:00.000+00:00",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_field_that_is_named_like_a_secret_is_hidden_however_deep() -> None:
    record = logging.LogRecord("agentkit.x", logging.INFO, "f", 1, "said", None, None)
    record.agentkit_fields = {"headers": [{"Cookie": "abc", "n_token": 3, "at": Path("/x")}]}
    line = json.loads(JsonFormatter().format(record))
    assert line["headers"] == [{"Cookie": "[hidden]", "n_token": 3, "at": "/x"}]


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_a_line_is_always_json(fields: dict[str, Any]) -> None:
    record = logging.LogRecord("agentkit.x", logging.INFO, "f", 1, "said", None, None)
    record.agentkit_fields = fields
    line = JsonFormatter().format(record)
    assert "\n" not in line
    json.loads(line)


@pytest.mark.parametrize(
    ("parts", "logged"),
    [
        (None, {"cost_usd": None, "cost_unknown": 0}),
        (["0.25", "0.5"], {"cost_usd": 0.75, "cost_unknown": 0}),
        (["0.25", None], {"cost_usd": 0.25, "cost_unknown": 1}),
        ([None], {"cost_usd": None, "cost_unknown": 1}),
    ],
)
def test_a_cost_is_a_number_or_null_with_what_is_unknown_beside_it(
    parts: list[str | None] | None, logged: dict[str, object]
) -> None:
    amounts = [None if part is None else Decimal(part) for part in parts or ()]
    assert cost_fields(None if parts is None else AtLeast.of(amounts)) == logged


async def test_every_cost_in_a_log_is_of_one_type(log: Log) -> None:
    model = PricedModel(["Done."])
    await Agent(name="payer", model=model, telemetry=RunLog()).run("Go.")
    (run,), (request,) = log.of("run done"), log.of("request ended")
    assert isinstance(run["cost_usd"], float)
    assert (run["cost_usd"], run["cost_unknown"]) == (request["cost_usd"], 0)
    assert request["cost_unknown"] == 0
