"""What today's date looks like when it is written out.

A date is no clock: `valid from 29.11.2026` is the same at each build. Only today's date is likely
to be another one tomorrow, so this is the one place of the linter that looks at the calendar.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def today() -> frozenset[date]:
    """Return the date here and in UTC: programs write either."""
    now = datetime.now(UTC)
    return frozenset({now.date(), now.astimezone().date()})


@lru_cache(maxsize=8)
def pattern_of(day: date) -> re.Pattern[str]:
    """Return what finds a day with its year, or with its weekday, in the ways people write it."""
    year, month, number = f"{day.year:04}", f"0?{day.month}", f"0?{day.day}"
    name, weekday = _short(_MONTHS[day.month - 1], 3), _short(_WEEKDAYS[day.weekday()], 3)
    ordinal = rf"{number}(?:st|nd|rd|th)?\.?"
    words = rf"(?:{ordinal} (?:of )?{name}|{name} {ordinal})"
    digits = "|".join(
        rf"{first}(?P<by{index}>[-./]){second}(?P=by{index}){third}"
        for index, (first, second, third) in enumerate(
            [(year, month, number), (number, month, year), (month, number, year)]
        )
    )
    return re.compile(
        rf"(?i)(?<![\w./-])(?:{digits}|(?:{weekday},? )?{words},? {year}|{weekday},? {words})"
        r"(?![\w/-]|\.\d)"
    )


def hints_of(day: date) -> tuple[str, ...]:
    """Return pieces of text, in lower case, of which each match has one."""
    return f"{day.year:04}", _WEEKDAYS[day.weekday()][:3]


def _short(name: str, n_letters: int) -> str:
    return rf"{name[:n_letters]}(?:{name[n_letters:]}|\.)?" if name[n_letters:] else name
