"""Whether the grammar engine can hold a text to a regular expression."""

from __future__ import annotations

import json

from llguidance import LLMatcher


def regex_problem(pattern: str) -> str | None:
    """Why no text can be held to `pattern`; None where one can.

    The syntax is that of Rust's regex crate, without what looks around.
    """
    source = f"start: %json {json.dumps({'type': 'string', 'pattern': pattern})}"
    problem = LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(source), None)
    if not problem:
        return None
    reasons = [line for line in problem.splitlines() if line.startswith("error: ")]
    return reasons[0].removeprefix("error: ") if reasons else "it is not understood"
