"""Volatile text in the stable tiers is found, named, and comes with its line and a fix."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.context import Document, Segment, SystemPart, SystemText, ToolList, lint_patterns
from agentkit.context.lint import VolatileTextWarning, lint, warn_volatile

TODAY = frozenset({date(2026, 11, 29)})  # a Sunday

VOLATILE = [
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
    ("Today is Monday, 29 November 2026.", "current date", "Today is Monday, 29 November 2026"),
    ("today's date: November 29, 2026", "current date", "today's date: November 29, 2026"),
    ("Today is Sunday.", "current date", "Today is Sunday"),
    ("Today is Monday", "current date", "Today is Monday"),
    ("You work on Sunday, November 29", "current date", "Sunday, November 29"),
    ("29.11.2026", "current date", "29.11.2026"),
    ("Rates of 2026-11-29:", "current date", "2026-11-29"),
    ("(11/29/2026)", "current date", "11/29/2026"),
    ("As of Nov 29th, 2026, this holds.", "current date", "Nov 29th, 2026"),
    ("29.11.2026 18:59", "timestamp", "29.11.2026 18:59"),
    ("28.11.2026 18:59:07", "timestamp", "28.11.2026 18:59:07"),
    ("11/28/2026, 6:59 PM", "timestamp", "11/28/2026, 6:59 PM"),
    ("It is 18:58", "time of day", "It is 18:58"),
    ("It's now 6:55 am.", "time of day", "It's now 6:55 am."),
    ("Server time: 07:00", "time of day", "Server time: 07:00"),
    ("06:58 PM", "time of day", "06:58 PM"),
    ("since 1764426736123", "epoch time", "1764426736123"),
    ("since 1764426736123456", "epoch time", "1764426736123456"),
    ("seed 1764426736123456789", "epoch time", "1764426736123456789"),
    ("Current time: 9:41 am", "current date", "Current time: 9:41 am"),
    ("The current date is 29.11.2026", "current date", "The current date is 29.11.2026"),
    ("notes.md (3 minutes ago)", "relative age", "(3 minutes ago)"),
    ("Last updated 5 min ago", "relative age", "updated 5 min ago"),
    ("modified: 2 hours ago", "relative age", "modified: 2 hours ago"),
    ("- rates, age: 3 min", "relative age", "age: 3 min"),
    ("Currencies: {'b', 'a', 'c'}", "unordered set", "{'b', 'a', 'c'}"),
    ("frozenset({'b', 'a'})", "unordered set", "frozenset({'b', 'a'})"),
    ("PID 12345", "process id", "PID 12345"),
    ("(pid=812)", "process id", "pid=812"),
    ("http://localhost:54321/mcp", "local port", "localhost:54321"),
    ("127.0.0.1:32768", "local port", None),
    ("https://x.test/s/8f3a2b1c9d", "session URL", "https://x.test/s/8f3a2b1c9d"),
    ("https://x.test/app?session=9ab3kd02", "session URL", None),
    ("Session ID: 01HZX3J7", "session id", "Session ID: 01HZX3J7"),
    ("your request_id is abc-123-x", "session id", None),
    ("req_011CSHoEeqs5C35K2UUqR7Fy", "session id", "req_011CSHoEeqs5C35K2UUqR7Fy"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "token", None),
]


@pytest.mark.parametrize(("text", "kind", "found"), VOLATILE)
def test_volatile_text_is_found(text: str, kind: str, found: str | None) -> None:
    (finding,) = lint(Segment(SystemText(SystemPart.ROLE, text)), days=TODAY)

    assert finding.kind == kind
    assert finding.segment == "system/role"
    assert finding.text in text
    assert found is None or finding.text == found
    assert finding.fix


INNOCENT = [
    "Policy of 2024-01-01, version 1.2.3, article 12:3.",
    "Answer in at most 1000000 words.",
    "Colours are written as #ff00aa.",
    "Use /usr/share/docs and C:\\Programs.",
    "deadbeefdeadbeefdeadbeef is no id: it has no digit",
    "The number 12345678901234567890 has no letters.",
    "Office hours are 9:00 to 17:30.",
    "If a ticket was created more than 3 days ago, escalate it.",
    "Answer questions about events up to two days ago.",
    "Orders updated within the last 5 minutes are live.",
    "If the user says that today is a holiday, say so.",
    "Ask which day today is; never guess the current date.",
    "The current date is shown at the end of the conversation.",
    "The session id is a string of 12 characters.",
    "Pass request_id: string and run_id: integer.",
    "See https://docs.test/sessions/overview and https://api.test/runs/{run_id}.",
    "https://docs.test/s/getting-started",
    "https://x.test/a?signature=YOUR_SIGNATURE or ?sig=<sig>",
    "The server listens on localhost:8080, the database on 127.0.0.1:5432.",
    "PID 1 is init; write the pid file to /run/app.pid",
    "Return {\"a\": 1, \"b\": 2} or {'key': 'value'}.",
    "Use the set {1, 2, 3} and the pattern [a-z]{2,5}.",
    "run_benchmark2024 and msg_handler are functions.",
    "In May 2023 the law changed; on 5 June it was published.",
    "ISO 8601 dates look like YYYY-MM-DDTHH:MM:SSZ.",
    "Keep up to date: today's news matter.",
    "Time limit: 10:30 minutes for each test.",
    "Age: 18 or older. Age: 18 years or more.",
    "The default timeout is 30 s; wait 5 min between attempts.",
    "Sizes are thread_store 4096 and resp_cache 8192.",
    "Valid from 28.11.2026 to 30.11.2026, or 2026-12-01.",
    "Closed on Sunday, December 27, and on Monday, November 30.",
    "Version 29.11.2026.1 of schema-2026-11-29.json.",
    "If it is 18:58, say that we close soon; when the time is 9:00, open.",
    "Check-in is at 3:00 PM; hand it in before 11:59 PM, or by 12:01 AM.",
    "From now 9:00 to 17:30 is open. It is 9:00 to 17:30 on Fridays.",
    "It is 10:30 minutes long. The closing time is 18:00.",
    "Call +49 1764 426736, or 17644267361 2345.",
    "Article 12:30 PMQ; John 3:16 AM-radio.",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_stable_text_is_left_alone(text: str) -> None:
    assert lint(Segment(SystemText(SystemPart.RULES, text)), days=TODAY) == ()


def test_a_date_is_volatile_on_its_own_day_only() -> None:
    role = Segment(SystemText(SystemPart.ROLE, "The rates of 29 November 2026 hold."))

    assert [finding.text for finding in lint(role, days=TODAY)] == ["29 November 2026"]
    assert lint(role, days=frozenset({date(2026, 11, 30)})) == ()


@given(st.dates(min_value=date(1000, 1, 1)), st.booleans())
def test_a_day_is_found_in_each_way_of_writing_it_and_its_neighbours_are_not(
    day: date, is_next: bool
) -> None:
    other = day + timedelta(days=1 if is_next and day < date.max else -1)
    for way in ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%A, %d %B %Y", "%B %d, %Y", "%a %b %d %Y"):
        text = f"It holds on {day.strftime(way)}."
        found = list(lint_patterns.sightings(text, {day}))
        assert [text[each.start : each.end] for each in found] == [day.strftime(way)]
        assert list(lint_patterns.sightings(text, {other})) == [] or way == "%d/%m/%Y"


def test_the_day_is_todays_if_nobody_says_another() -> None:
    written = datetime.now(UTC).strftime("%d.%m.%Y")
    role = Segment(SystemText(SystemPart.ROLE, f"Rates of {written}."))
    findings = lint(role) or lint(role)  # a midnight may lie between the two lines

    assert [finding.text for finding in findings] == [written]


def tools(description: str) -> Segment:
    listed = [{"description": description, "name": "post", "parameters": {}}]
    return Segment(ToolList(json.dumps(listed, separators=(",", ":")).encode()))


@pytest.mark.parametrize(
    "description",
    [
        "Posts to https://x.test/s/123e4567-e89b-42d3-a456-426614174000",
        "Posts to https://claude.test/sessions/sess9f8a7b2c",
        "Session id: 9f8a7b2c-1\nPosts.",
    ],
)
def test_a_session_in_a_tools_description_is_found_and_belongs_elsewhere(description: str) -> None:
    """C11: a tool description with a session URL made every resume a total miss."""
    (finding,) = lint(tools(description))

    assert finding.segment == "tools"
    assert finding.text in description
    assert "pass it when the tool runs" in finding.fix


@pytest.mark.parametrize(
    "url",
    [
        "https://b.s3.test/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=ab12cd34ef56",
        "https://acc.blob.test/c/b?sv=2024-01-01&sig=abc%2B123def",
        "https://storage.test/o?X-Goog-Date=20261129T101500Z&X-Goog-Signature=0a1b2c3d",
    ],
)
def test_a_signed_address_is_found_and_the_fix_is_to_sign_later(url: str) -> None:
    """C20: addresses that were signed anew at each load had other bytes at each load."""
    (finding,) = lint(Segment(SystemText(SystemPart.EXAMPLES, f"The logo is at {url} always.")))

    assert finding.kind == "signed URL"
    assert finding.text == url
    assert "without its signature" in finding.fix


def test_documents_may_speak_of_any_time() -> None:
    assert lint(Segment(Document(uri="log", text="2026-11-29T14:32:16Z started"))) == ()


def test_each_piece_of_text_is_reported_once() -> None:
    text = "2026-11-29T14:32:16Z and /tmp/123e4567-e89b-42d3-a456-426614174000/x"

    assert len(lint(Segment(SystemText(SystemPart.ROLE, text)))) == 2


def test_warnings_name_the_agent_and_the_line() -> None:
    segments = (Segment(SystemText(SystemPart.RULES, "pid file /tmp/a.pid")),)

    with pytest.warns(VolatileTextWarning, match=r"agent 'desk': temporary path '/tmp/a.pid'"):
        warn_volatile(segments, "desk")
    with pytest.warns(VolatileTextWarning, match=r"in system/rules \(app.py:12\): leave it out"):
        warn_volatile(segments, "desk", lambda segment, text: "app.py:12")


PIECES = st.lists(
    st.one_of(
        st.sampled_from([text for text, _, _ in VOLATILE]),
        st.sampled_from(INNOCENT),
        st.sampled_from(["\n", " ", "İ ", "x" * 1_500, "word " * 600]),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_searching_near_hints_finds_what_searching_everything_finds(pieces: list[str]) -> None:
    text = " ".join(pieces)
    kinds: dict[str, set[tuple[int, int]]] = {}
    for kind in lint_patterns._VOLATILE:
        everywhere = [match.span() for line in _lines(text) for match in _all(kind, *line, text)]
        assert list(lint_patterns._matches(kind, text, text.lower())) == everywhere or (
            len(text.lower()) != len(text)
        )
        kinds.setdefault(kind.kind, set()).update(everywhere)
    for each in lint_patterns.sightings(text):
        assert (each.start, each.end) in kinds[each.kind]


def _lines(text: str) -> list[tuple[int, int]]:
    ends = [index for index, letter in enumerate(text) if letter == "\n"] + [len(text)]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def _all(kind: lint_patterns._Volatile, start: int, end: int, text: str) -> Iterator[re.Match[str]]:
    return kind.pattern.finditer(text, start, end)


def test_a_long_prompt_is_read_in_no_time() -> None:
    """400 kB, and texts on which a careless pattern needs quadratic time."""
    nasty = [
        "http://" + "a" * 50_000,
        "0" * 50_000,
        "/tmp/" * 10_000,
        "{'a', " * 9_000,
        "a-" * 40_000,
    ]
    started_s = time.process_time()
    for text in ["The rates of the day. " * 20_000, *nasty]:
        lint(Segment(SystemText(SystemPart.RULES, text)))
    assert time.process_time() - started_s < 5
