"""Logs: one line a request, ids that can be followed, and nothing of what was said."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentkit_runtime.watching import WatchOptions
from agentkit_runtime.watching.logs import JsonFormatter, TextFormatter, log_config
from tests.runtime.service.scripted import wait_until

from .conftest import Watched


@contextmanager
def logged(formatter: logging.Formatter, name: str = "agentkit_runtime") -> Iterator[io.StringIO]:
    """What is logged while the block runs, from level INFO on."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger(name)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def documents(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_request_is_a_line_with_its_numbers(watched: Watched) -> None:
    with logged(JsonFormatter()) as stream:
        watched.chat("hello", headers={"x-request-id": "mine-7", "x-session-id": "s"})
        watched.client.get("/health")
        watched.client.get("/v1/nothing?prompt=secret")
        watched.client.post("/v1/chat/completions", json={"model": 3})
        watched.client.get("/v1/models")  # a keep-alive connection has logged all before it
    chat, nothing, invalid, *_ = documents(stream)
    assert chat["message"] == "POST /v1/chat/completions 200"
    assert (chat["level"], chat["logger"]) == ("info", "agentkit_runtime.requests")
    assert (chat["request_id"], chat["session"], chat["tenant"]) == ("mine-7", "s", "default")
    assert (chat["status"], chat["outcome"], chat["finish"]) == (200, "done", "stop")
    assert (chat["completion_tokens"], chat["missed"]) == (7, chat["missed"])
    assert 0 < chat["ttft_s"] <= chat["seconds"]
    assert nothing["message"] == "GET none 404", "paths that are nobody's may hold anything"
    assert invalid["message"] == "POST /v1/chat/completions 400"
    assert "secret" not in stream.getvalue()


def test_the_text_form_says_the_same(watched: Watched) -> None:
    with logged(TextFormatter()) as stream:
        watched.chat("hello", headers={"x-request-id": "mine-8"})
        wait_until(lambda: "mine-8" in stream.getvalue())
    (line,) = (line for line in stream.getvalue().splitlines() if "mine-8" in line)
    assert "INFO agentkit_runtime.requests: POST /v1/chat/completions 200 request_id=mine-8" in line
    assert " completion_tokens=7 " in line


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_session_cannot_begin_a_line_nor_steer_a_terminal(
    watched: Watched, formatter: logging.Formatter
) -> None:
    with logged(formatter) as stream:
        watched.chat("hello", prompt_cache_key="a\n2026 ERROR forged\x1b[2J\u202e\u2028")
        wait_until(lambda: "forged" in stream.getvalue())
    (line,) = (line for line in stream.getvalue().split("\n") if "forged" in line)
    assert "200" in line
    assert line.isprintable()


@pytest.mark.parametrize("given", ["", "with space", "x" * 129, "a\u00e9b", "{}"])
def test_an_id_that_cannot_be_one_is_replaced(watched: Watched, given: str) -> None:
    answer = watched.client.get("/v1/models", headers={"x-request-id": given.encode("latin-1")})
    assert answer.headers["x-request-id"].startswith("req_")


def test_every_answer_carries_the_id_of_its_request(watched: Watched) -> None:
    mine = {"x-request-id": "trace/me:1"}
    for answer in (
        watched.chat("hello", headers=mine),
        watched.client.get("/nothing", headers=mine),
        watched.client.post("/v1/chat/completions", content=b"{", headers=mine),
    ):
        assert answer.headers.get_list("x-request-id") == ["trace/me:1"]


def test_an_exception_is_logged_by_type_and_place_without_its_text() -> None:
    with logged(JsonFormatter(), "agentkit_runtime.test") as stream:
        fail("the prompt")
    [document] = documents(stream)
    assert document["error"] == "ValueError"
    assert [at.split()[-1] for at in document["at"]] == ["fail"]
    assert "the prompt" not in stream.getvalue()
    with logged(TextFormatter(), "agentkit_runtime.test") as stream:
        fail("the prompt")
    first, kind, at = stream.getvalue().splitlines()
    assert first.endswith("ERROR agentkit_runtime.test: it broke")
    assert kind == "ValueError"
    assert at.endswith(" fail")


def fail(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("agentkit_runtime.test").exception("it broke")


@pytest.mark.parametrize(
    ("options", "level"),
    [
        (WatchOptions(log_format="json"), "INFO"),
        (WatchOptions(), "WARNING"),
        (WatchOptions(log_level="debug"), "DEBUG"),
    ],
)
def test_the_configuration_is_one_that_logging_takes(options: WatchOptions, level: str) -> None:
    config = log_config(options)
    assert config["loggers"]["agentkit_runtime"]["level"] == level
    logging.config.DictConfigurator(config)  # type: ignore[no-untyped-call]  # checks its form
    kind = config["formatters"]["line"]["()"]
    assert kind is (JsonFormatter if options.log_format == "json" else TextFormatter)


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"metrics_compat": "tgi"}, {"log_format": "xml"}, {"last_requests": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            WatchOptions(**wrong)  # type: ignore[arg-type]
