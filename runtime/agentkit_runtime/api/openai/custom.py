"""Custom tools: calls whose input is free text.

A template only knows functions. So a custom tool is shown to the model as a function with one
string, `input`, is called in the family's own notation, and its text is told as the API tells it.
On the way back the text becomes that function's arguments again, in the only spelling that our
grammars generate: the prompt grows by exactly what was said.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Literal

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.arguments import with_delete_escaped
from agentkit_runtime.chat import ChatTool
from agentkit_runtime.text.regex import regex_problem

MAX_INPUT_CHARS = 65_536
"""Longest input of a call. Patches and programs are longer than what functions are passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGrammar:
    """What inputs must be like, as the client says it."""

    syntax: Literal["lark", "regex"]
    definition: str
    field: str
    """Where the request has the definition."""


def custom_tool(name: str, description: str | None, grammar: InputGrammar | None) -> ChatTool:
    """The function that a custom tool is shown as.

    A `regex` is held to; a `lark` grammar is only shown: it would have to hold inside the quotes of
    a string.

    Raises:
        ApiError: 400, for a regex that the grammar engine does not take.
    """
    text: dict[str, object] = {"type": "string", "maxLength": MAX_INPUT_CHARS}
    said = [description] if description else []
    if grammar is not None and grammar.syntax == "regex":
        _check_regex(grammar)
        text["pattern"] = f"^(?:{grammar.definition})$"
    elif grammar is not None:
        said.append(f"The input follows this Lark grammar:\n{grammar.definition}")
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {"input": text},
        "required": ["input"],
        "additionalProperties": False,
    }
    return ChatTool(name=name, description="\n\n".join(said), parameters=parameters)


def _check_regex(grammar: InputGrammar) -> None:
    problem = regex_problem(grammar.definition)
    if problem is not None:
        raise ApiError(
            f"{grammar.field} is no regular expression that inputs can be held to: {problem}; its "
            "syntax is that of Rust's regex crate",
            param=grammar.field,
            code="invalid_value",
        )


def arguments_of(text: str) -> str:
    """A call's arguments, as they are generated, from its input."""
    return with_delete_escaped(json.dumps({"input": text}, ensure_ascii=False))


def input_of(arguments: str) -> str:
    """A call's input, from its generated arguments."""
    reader = InputReader()
    return reader.read(arguments) + reader.finish()


_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_TEXT = re.compile(
    r"""(?:
        [^"\\]+                                         # as it is
      | \\["\\/bfnrt]                                   # escaped
      | \\u(?:[0-9a-ce-f][0-9a-f]|d[0-7])[0-9a-f]{2}    # by its number
      | \\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}       # by both of its surrogates
    )*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Of a JSON string: as much as stands for whole characters."""


@dataclass(slots=True)
class InputReader:
    """Reads the input out of generated arguments while they arrive.

    Outside the grammar a model can write other arguments. Then all that it wrote is the input: the
    client's tool says best what is wrong with it.
    """

    _held: str = ""
    """What is not told yet: arguments up to the string, then what may go on."""
    _state: Literal["head", "text", "end"] = field(default="head", init=False)

    def read(self, arguments: str) -> str:
        """More of the input, from more of the arguments."""
        self._held += arguments
        if self._state == "head":
            head = _HEAD.match(self._held)
            if head is None:
                return ""
            self._held, self._state = self._held[head.end() :], "text"
        if self._state == "end":
            return ""
        found = _TEXT.match(self._held)
        assert found is not None, "the expression matches an empty text, too"
        self._held = self._held[found.end() :]
        if self._held.startswith('"'):
            self._state = "end"
        return _unescaped(found[0])

    def finish(self) -> str:
        """The rest, where the arguments end."""
        held, self._held = self._held, ""
        return held if self._state == "head" else ""


def _unescaped(text: str) -> str:
    told: str = json.loads(f'"{text}"', strict=False)
    return told
