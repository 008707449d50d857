"""Volatile text in the stable tiers is found, named, and comes with a fix."""

from __future__ import annotations

import json

import pytest

from agentkit.context import Document, Segment, SystemPart, SystemText, ToolList
from agentkit.context.lint import VolatileTextWarning, lint, warn_volatile


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("Now: 2026-11-29T14:32:16Z.", "timestamp", "2026-11-29T14:32:16Z"),
        ("It is 2026-11-29 14:32", "timestamp", "2026-11-29 14:32"),
        ("at 2026-11-29T14:32:16.123456+01:00", "timestamp", "2026-11-29T14:32:16.123456+01:00"),
        ("clock 14:32:16.5 now", "time of day", "14:32:16.5"),
        (
            "run 123e4567-e89b-42d3-a456-426614174000",
            "UUID",
            "123e4567-e89b-42d3-a456-426614174000",
        ),
        ("cwd /tmp/tmpab12/work.", "temporary path", "/tmp/tmpab12/work"),
        ("in /private/var/folders/zz/x1/T", "temporary path", "/var/folders/zz/x1/T"),
        (r"C:\Users\me\AppData\Local\Temp\x", "temporary path", None),
        ("<Desk object at 0x7f3a12bc45d0>", "memory address", "at 0x7f3a12bc45d0"),
        ("since 1764426736", "epoch time", "1764426736"),
        ("session 4f53cda18c2baa0c0354bb5f9a3ecbe5", "hexadecimal id", None),
    ],
)
def test_volatile_text_is_found(text: str, kind: str, found: str | None) -> None:
    (finding,) = lint(Segment(SystemText(SystemPart.ROLE, text)))

    assert finding.kind == kind
    assert finding.segment == "system/role"
    assert finding.text in text
    assert found is None or finding.text == found
    assert "volatile()" in finding.fix


@pytest.mark.parametrize(
    "text",
    [
        "Policy of 2024-01-01, version 1.2.3, article 12:3.",
        "Answer in at most 1000000 words.",
        "Colours are written as #ff00aa.",
        "Use /usr/share/docs and C:\\Programs.",
        "deadbeefdeadbeefdeadbeef is no id: it has no digit",
        "The number 12345678901234567890 has no letters.",
        "Office hours are 9:00 to 17:30.",
    ],
)
def test_stable_text_is_left_alone(text: str) -> None:
    assert lint(Segment(SystemText(SystemPart.RULES, text))) == ()


def test_a_session_id_in_a_tools_description_is_found() -> None:
    """Regression elsewhere (C11): a session URL in a tool description made every resume a miss."""
    description = "Posts to https://x.test/s/123e4567-e89b-42d3-a456-426614174000"
    tools = json.dumps([{"name": "post", "description": description, "parameters": {}}])

    (finding,) = lint(Segment(ToolList(tools.encode())))

    assert finding.segment == "tools"
    assert "description" in finding.fix


def test_documents_may_speak_of_any_time() -> None:
    assert lint(Segment(Document(uri="log", text="2026-11-29T14:32:16Z started"))) == ()


def test_each_piece_of_text_is_reported_once() -> None:
    text = "2026-11-29T14:32:16Z and /tmp/123e4567-e89b-42d3-a456-426614174000/x"

    assert len(lint(Segment(SystemText(SystemPart.ROLE, text)))) == 2


def test_warnings_name_the_agent() -> None:
    segments = (Segment(SystemText(SystemPart.RULES, "pid file /tmp/a.pid")),)

    with pytest.warns(VolatileTextWarning, match=r"agent 'desk': temporary path '/tmp/a.pid'"):
        warn_volatile(segments, "desk")
