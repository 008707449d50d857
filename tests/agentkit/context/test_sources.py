"""The line that supplied a text is found, and nothing that cannot be found is an error."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from agentkit.context.sources import line_of_attribute, line_of_function

LINES = Path(__file__).read_text().splitlines()


class Outer:
    """First line.

    Third line of the docstring.
    """

    text = "short"
    other: str = (
        "one "
        "two"
    )  # fmt: skip

    class Inner:
        """Inner."""

        text = "inner text"


class Heir(Outer):
    text = "heir"


def function() -> str:
    """A function."""
    return "the answer"


def number(text: str) -> int:
    return next(n for n, line in enumerate(LINES, 1) if line.strip() == text)


def place(found: str | None) -> int:
    assert found is not None
    filename, _, line = found.rpartition(":")
    assert filename.endswith("test_sources.py")
    return int(line)


def test_attributes_and_docstrings_are_found_where_they_are_set() -> None:
    assert place(line_of_attribute(Outer, "text")) == number('text = "short"')
    assert place(line_of_attribute(Outer.Inner, "text")) == number('text = "inner text"')
    assert place(line_of_attribute(Heir, "text")) == number('text = "heir"')
    assert place(line_of_attribute(Heir, "other")) == number("other: str = (")
    assert place(line_of_attribute(Outer, "other", "two")) == number('"two"')
    assert place(line_of_attribute(Outer, "__doc__")) == number('"""First line.')
    third = "Third line of the docstring."
    assert place(line_of_attribute(Outer, "__doc__", third)) == number(third)


def test_functions_are_found_and_the_line_in_them() -> None:
    assert place(line_of_function(function)) == number("def function() -> str:")
    assert place(line_of_function(function, "the answer")) == number('return "the answer"')


def test_a_class_inside_a_function_is_found() -> None:
    class Local:
        text = "local"

    assert place(line_of_attribute(Local, "text")) == number('text = "local"')


Made = type("Made", (), {"text": "x", "__module__": "nowhere"})


@pytest.mark.parametrize(
    "found",
    [
        line_of_attribute(Outer, "missing"),
        line_of_attribute(Made, "text"),
        line_of_attribute(int, "__doc__"),
        line_of_function(len),
        line_of_function(functools.partial(function)),
    ],
)
def test_what_has_no_source_is_not_found_and_no_error(found: str | None) -> None:
    assert found is None


def test_a_text_that_was_computed_leads_to_the_statement() -> None:
    assert place(line_of_attribute(Outer, "text", "not there")) == number('text = "short"')
