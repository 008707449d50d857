"""What volatile text looks like. Every pattern here has innocent neighbours in the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A piece of text that looks volatile."""

    kind: str
    start: int
    end: int
    fix: str | None
    """What to do about this kind in particular; None: what its tier says."""


def sightings(text: str) -> Iterator[Sighting]:
    """Yield what looks volatile; each piece of text once, named by the first pattern that fits."""
    taken: list[tuple[int, int]] = []
    for kind, fix, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if all(end <= other_start or start >= other_end for other_start, other_end in taken):
                taken.append((start, end))
                yield Sighting(kind=kind, start=start, end=end, fix=fix)


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_WEEKDAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_DATE = (
    rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}(?: \d{{4}})?"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)"
)
_UNITS = r"(?:s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?|weeks?|months?|years?)"
_AGO = rf"(?:about |~)?(?:\d+|an?|one) ?{_UNITS} ago"
_URL = r"https?://[^\s\"'<>)\\]*"

_STABLE_ADDRESS = (
    "give the address without its signature, and sign it when it is fetched: an address that is "
    "signed anew has other bytes"
)
_SORTED = "a set has another order in each process; write it sorted: ', '.join(sorted(...))"

_PATTERNS: tuple[tuple[str, str | None, re.Pattern[str]], ...] = (
    (
        "signed URL",
        _STABLE_ADDRESS,
        re.compile(
            _URL + r"[?&](?:X-(?:Amz|Goog)-[A-Za-z-]+|AWSAccessKeyId|Signature|signature|sig|sign)="
            r"(?=[^&\s\"'\\]*\d)[\w%+/.=~-]{8,}[^\s\"'<>)\\]*"
        ),
    ),
    (
        "session URL",
        None,
        re.compile(
            _URL + r"(?:/(?:s|sessions?|conversations?|threads?|runs?|jobs?)/"
            r"(?=[\w-]*\d[\w-]*[A-Za-z]|[\w-]*[A-Za-z][\w-]*\d)[\w-]*\d[\w-]*(?<=[\w-]{8})(?!\w)"
            r"|[?&](?:session|sid|session_?id|request_?id|run_?id)=(?=[\w-]*\d)[\w-]{6,})"
        ),
    ),
    (
        "timestamp",
        None,
        re.compile(
            r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
        ),
    ),
    ("time of day", None, re.compile(r"\b(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?\b")),
    (
        "current date",
        None,
        re.compile(
            r"(?i:\b(?:today(?:['’]s date)?|(?:the )?(?:current|today['’]s) (?:date|day|time)"
            r"(?: and time)?|the (?:date|time) (?:today|now)|date and time)\b\s*(?:is|:|=)\s*)"
            rf"(?i:(?:{_WEEKDAY},? ?)?)(?:{_DATE}|\d{{1,2}}:\d{{2}}(?: ?[ap]m)?|(?i:(?<=day)\b))"
        ),
    ),
    (
        "relative age",
        "leave it out: an age is another one at each build, without any edit",
        re.compile(
            rf"(?i:\({_AGO}\)|\b(?:updated|modified|edited|created|saved|seen|changed|indexed"
            rf"|refreshed|fetched)[:\s]+(?:at |on )?{_AGO}\b|\bage: ?\d+ ?{_UNITS}\b(?! or\b))"
        ),
    ),
    ("UUID", None, re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")),
    (
        "token",
        "leave it out; secrets belong into deps, which the model never sees",
        re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"),
    ),
    (
        "session id",
        None,
        re.compile(
            r"(?i:\b(?:session|conversation|thread|request|run|trace|span|correlation|invocation)"
            r"[_ -]?id\b)[\"'\\]*\s*(?:[:=]|\bis\b)\s*[\"'\\]*(?=[\w.-]*\d)[\w-][\w.-]{4,}\w"
            r"|\b(?:req|sess|run|msg|conv|thread|resp|trace|evt)_"
            r"(?=[A-Za-z]*\d+[A-Za-z]+\w*\d)[A-Za-z0-9]{10,}\b"
        ),
    ),
    ("memory address", None, re.compile(r"\bat 0x[0-9a-fA-F]{6,}\b")),
    (
        "temporary path",
        None,
        re.compile(
            r"(?:/private)?/(?:var/)?tmp/[\w.~/-]*\w|/var/folders/[\w.+/-]*\w"
            r"|[A-Za-z]:\\{1,2}(?:[^\\\s\"]+\\{1,2})*[Tt]e?mp\\{1,2}[^\s\"]*"
        ),
    ),
    (
        "unordered set",
        _SORTED,
        re.compile(r"(?:frozenset\(|set\()?\{'[^'{}\n]{1,80}'(?:, '[^'{}\n]{1,80}')+\}\)?"),
    ),
    (
        "process id",
        None,
        re.compile(r"\b(?:PID|pid|[Pp]rocess id)\b\s*(?:[:=#]|is\b)?\s*\d{2,7}\b"),
    ),
    (
        "local port",
        "fix the port, or leave it out: the system gives another one to each process",
        # From 32768 on ports are given out by the system.
        re.compile(
            r"(?:\blocalhost|\b127\.0\.0\.1|\b0\.0\.0\.0|\[::1\])"
            r":(?:3276[89]|327[7-9]\d|32[89]\d\d|3[3-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b"
        ),
    ),
    ("epoch time", None, re.compile(r"\b1[6-9]\d{8}(?:\d{3})?(?:\.\d+)?\b")),
    (
        "hexadecimal id",
        None,
        re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b", re.IGNORECASE),
    ),
)
