"""What the user sees of a download."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agentkit_runtime.loading.progress import (
    BarReporter,
    LineReporter,
    SilentReporter,
    reporter,
)


def test_logs_get_a_line_at_each_quarter() -> None:
    stream = io.StringIO()
    with LineReporter(stream).track("model", 4_000_000) as advance:
        for present in range(0, 4_000_001, 100_000):
            advance(present)
    assert stream.getvalue().splitlines() == [
        f"model: {quarter * 25}% ({quarter} of 4 MB)" for quarter in range(5)
    ]


def test_a_resumed_download_says_where_it_is() -> None:
    stream = io.StringIO()
    with LineReporter(stream).track("model", 4_000_000) as advance:
        advance(2_100_000)
    assert stream.getvalue() == "model: 50% (2 of 4 MB)\n"


def test_terminals_get_a_bar() -> None:
    stream = io.StringIO()
    bars = BarReporter(Console(file=stream, force_terminal=True, width=100))
    bars.say("fetching [model]")
    with bars.track("model [x]", 1_000) as advance:
        advance(1_000)
    assert "fetching [model]" in stream.getvalue()
    assert "model [x]" in stream.getvalue()


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = reporter(enabled=False)
    assert isinstance(quiet, SilentReporter)
    quiet.say("x")
    with quiet.track("x", 1) as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")


def test_messages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    reporter(enabled=True).say("hello")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err
