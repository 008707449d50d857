"""What volatile text looks like. Every pattern here has innocent neighbours in the tests.

A prompt may have hundreds of kilobytes, and is searched at every start of a program. So a pattern
is tried only near a hint: a piece of text that each of its matches has, and that is found fast.
One search for a pattern that begins with a letter of its own is faster than several for texts.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date

from agentkit.context.lint_days import hints_of, pattern_of

_REACH = 2_000
"""How far from its hint a match may reach, in characters; never beyond its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A piece of text that looks volatile."""

    kind: str
    start: int
    end: int
    fix: str | None
    """What to do about this kind in particular; None: what its tier says."""


def sightings(text: str, days: Collection[date] = ()) -> Iterator[Sighting]:
    """Yield what looks volatile; each piece of text once, named by the first pattern that fits.

    `days` are those on which the text was built: a date is volatile only where it is today's.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters have a longer lower case, which moves the rest
        lowered = re.sub("[A-Z]", lambda match: match.group().lower(), text)
    taken: list[tuple[int, int]] = []
    todays = (_Volatile("current date", pattern_of(day), hints_of(day)) for day in sorted(days))
    for volatile in (*_VOLATILE, *todays):
        for start, end in _matches(volatile, text, lowered):
            if all(end <= other_start or start >= other_end for other_start, other_end in taken):
                taken.append((start, end))
                yield Sighting(kind=volatile.kind, start=start, end=end, fix=volatile.fix)


@dataclass(frozen=True, slots=True)
class _Volatile:
    """One kind of volatile text."""

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str | re.Pattern[str], ...]
    """In lower case."""
    fix: str | None = None


def _matches(volatile: _Volatile, text: str, lowered: str) -> Iterator[tuple[int, int]]:
    for start, end in _windows(_hinted(volatile.hints, lowered), text):
        for match in volatile.pattern.finditer(text, start, end):
            yield match.span()


def _windows(places: Iterator[int], text: str) -> Iterator[tuple[int, int]]:
    """The lines around places, each character at most once."""
    start = end = 0
    for place in places:
        left, right = max(0, place - _REACH), min(len(text), place + _REACH)
        left = max(left, text.rfind("\n", left, place) + 1)
        line_end = text.find("\n", place, right)
        right = right if line_end < 0 else line_end
        if left <= end and start < end:
            end = max(end, right)
            continue
        if start < end:
            yield start, end
        start, end = left, right
    if start < end:
        yield start, end


def _hinted(hints: tuple[str | re.Pattern[str], ...], lowered: str) -> Iterator[int]:
    """Places of hints, in order. The next one is looked for when it is asked for."""
    return heapq.merge(*(_places(hint, lowered) for hint in hints))


def _places(hint: str | re.Pattern[str], lowered: str) -> Iterator[int]:
    if isinstance(hint, re.Pattern):
        for match in hint.finditer(lowered):
            yield match.start()
        return
    place = lowered.find(hint)
    while place >= 0:
        yield place
        place = lowered.find(hint, place + 1)


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_WEEKDAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_DATE = (
    rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}(?: \d{{4}})?"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)"
)
_UNITS = r"(?:s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?|weeks?|months?|years?)"
_AGO = rf"(?:about |~)?(?:\d+|an?|one) ?{_UNITS} ago"
_UNLESS = "".join(
    f"(?<!{word} )"
    for word in (
        *("if", "when", "whenever", "until", "till", "once", "after", "before", "unless"),
        *("that", "while", "as", "for", "by", "since", "from", "whether", "so"),
    )
)
"""A time behind one of these words is a condition, and none that a clock has said."""
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?!\d|:\d)(?: ?[ap]\.?m\b\.?)?"
_CLOCK_HINTS = (re.compile(":[0-9]"),)
_URL = r"https?://[^\s\"'<>)\\]*"
_RUNS = (
    *("session", "conversation", "thread", "request", "run", "trace", "span"),
    *("correlation", "invocation"),
)
_PREFIXES = ("req_", "sess_", "run_", "msg_", "conv_", "thread_", "resp_", "trace_", "evt_")

_VOLATILE = (
    _Volatile(
        "signed URL",
        re.compile(
            _URL + r"[?&](?:X-(?:Amz|Goog)-[A-Za-z-]+|AWSAccessKeyId|Signature|signature|sig|sign)="
            r"(?=[^&\s\"'\\]*\d)[\w%+/.=~-]{8,}[^\s\"'<>)\\]*"
        ),
        ("x-amz-", "x-goog-", "awsaccesskeyid=", "signature=", "sig=", "sign="),
        "give the address without its signature, and sign it when it is fetched: an address that "
        "is signed anew has other bytes",
    ),
    _Volatile(
        "session URL",
        re.compile(
            _URL + r"(?:/(?:s|sessions?|conversations?|threads?|runs?|jobs?)/"
            r"(?=[\w-]*\d[\w-]*[A-Za-z]|[\w-]*[A-Za-z][\w-]*\d)[\w-]*\d[\w-]*(?<=[\w-]{8})(?!\w)"
            r"|[?&](?:session|sid|session_?id|request_?id|run_?id)=(?=[\w-]*\d)[\w-]{6,})"
        ),
        (
            *("/s/", "/session", "/conversation", "/thread", "/run", "/job"),
            *("session=", "sid=", "sessionid=", "session_id=", "requestid=", "request_id="),
            *("runid=", "run_id="),
        ),
    ),
    _Volatile(
        "timestamp",
        re.compile(
            r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
        ),
        _CLOCK_HINTS,
    ),
    _Volatile(
        "timestamp",
        re.compile(
            r"\b\d{1,2}([./])\d{1,2}\1\d{4},? \d{1,2}:[0-5]\d(?::[0-5]\d)?"
            r"(?i: ?[ap]\.?m\b)?(?!\w)"
        ),
        _CLOCK_HINTS,
    ),
    _Volatile(
        "current date",
        re.compile(
            r"(?i:\b(?:today(?:['’]s date)?|(?:the )?(?:current|today['’]s) (?:date|day|time)"
            r"(?: and time)?|the (?:date|time) (?:today|now)|date and time)\b\s*(?:is|:|=)\s*)"
            rf"(?i:(?:{_WEEKDAY},? ?)?)(?:{_DATE}|\d{{1,2}}:\d{{2}}(?: ?[ap]m)?|(?i:(?<=day)\b))"
        ),
        (
            *("today", "current date", "current day", "current time"),
            *("the date now", "the time now", "date and time"),
        ),
    ),
    _Volatile(
        "time of day",
        re.compile(
            rf"(?i)\b(?=[ilnst]){_UNLESS}(?:it is|it['’]s|the time is|now(?: is)?"
            rf"|(?:local|server|system) time(?: is)?)(?: now| currently| just| exactly)?:? {_CLOCK}"
            r"(?! ?(?:to|until|till|or|and|min\w*|hours?|h)\b)(?! ?[-–])"
        ),
        _CLOCK_HINTS,
    ),
    _Volatile(
        "time of day",
        # As `%I:%M %p` writes it. People's hours are round; 11:59 and 12:01 are deadlines.
        re.compile(
            r"\b(?!11:59|12:01)(?:0?[1-9]|1[0-2]):[0-5][1-46-9]"
            r" ?(?:AM|PM|am|pm|[ap]\.m\.)(?!\w|-[a-z])"
        ),
        _CLOCK_HINTS,
    ),
    _Volatile(
        "time of day",
        re.compile(r"\b(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?\b"),
        _CLOCK_HINTS,
    ),
    _Volatile(
        "relative age",
        re.compile(
            rf"(?i:\({_AGO}\)|\b(?:updated|modified|edited|created|saved|seen|changed|indexed"
            rf"|refreshed|fetched)[:\s]+(?:at |on )?{_AGO}\b|\bage: ?\d+ ?{_UNITS}\b(?! or\b))"
        ),
        (" ago", re.compile("age: ?[0-9]")),
        "leave it out: an age is another one at each build, without any edit",
    ),
    _Volatile(
        "UUID",
        re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
        (re.compile(r"-[0-9a-f]{4}-[0-9a-f]{4}-"),),
    ),
    _Volatile(
        "token",
        re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"),
        (".eyj",),
        "leave it out; secrets belong into deps, which the model never sees",
    ),
    _Volatile(
        "session id",
        re.compile(
            rf"(?i:\b(?:{'|'.join(_RUNS)})[_ -]?id\b)"
            r"[\"'\\]*\s*(?:[:=]|\bis\b)\s*[\"'\\]*(?=[\w.-]*\d)[\w-][\w.-]{4,}\w"
            rf"|\b(?:{'|'.join(_PREFIXES)})"
            r"(?=[A-Za-z]*\d+[A-Za-z]+\w*\d)[A-Za-z0-9]{10,}\b"
        ),
        (
            re.compile(r"id(?:(?<=[ndte]id)|(?<=[ndte][ _-]id))"),  # how each of the runs ends
            re.compile(f"_(?:{'|'.join(f'(?<={prefix})' for prefix in _PREFIXES)})"),
        ),
    ),
    _Volatile("memory address", re.compile(r"\bat 0x[0-9a-fA-F]{6,}\b"), ("at 0x",)),
    _Volatile(
        "temporary path",
        re.compile(
            r"(?:/private)?/(?:var/)?tmp/[\w.~/-]*\w|/var/folders/[\w.+/-]*\w"
            r"|[A-Za-z]:\\{1,2}(?:[^\\\s\"]+\\{1,2})*[Tt]e?mp\\{1,2}[^\s\"]*"
        ),
        ("/tmp/", "/var/folders/", "\\temp\\", "\\tmp\\"),
    ),
    _Volatile(
        "unordered set",
        re.compile(r"(?:frozenset\(|set\()?\{'[^'{}\n]{1,80}'(?:, '[^'{}\n]{1,80}')+\}\)?"),
        ("{'",),
        "a set has another order in each process; write it sorted: ', '.join(sorted(...))",
    ),
    _Volatile(
        "process id",
        re.compile(r"\b(?:PID|pid|[Pp]rocess id)\b\s*(?:[:=#]|is\b)?\s*\d{2,7}\b"),
        ("pid", "process id"),
    ),
    _Volatile(
        "local port",
        # From 32768 on ports are given out by the system.
        re.compile(
            r"(?:\blocalhost|\b127\.0\.0\.1|\b0\.0\.0\.0|\[::1\])"
            r":(?:3276[89]|327[7-9]\d|32[89]\d\d|3[3-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b"
        ),
        ("localhost:", "127.0.0.1:", "0.0.0.0:", "[::1]:"),
        "fix the port, or leave it out: the system gives another one to each process",
    ),
    _Volatile(
        "epoch time",
        # In seconds, milliseconds, microseconds or nanoseconds.
        re.compile(r"\b1[6-9]\d{8}(?:\d{3}){0,3}(?:\.\d+)?\b"),
        (re.compile(r"1[6-9]\d{8}"),),
    ),
    _Volatile(
        "hexadecimal id",
        re.compile(
            r"\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{16,}\b",
        ),
        # Of sixteen there are seven behind a digit, or eight before it. A long one has few hints.
        (re.compile(r"[0-9](?:(?=[0-9a-f]{7})|(?<=[0-9a-f]{9}))[0-9a-f]{0,99}"),),
    ),
)
