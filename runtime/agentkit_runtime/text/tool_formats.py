"""How models write tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agentkit_runtime.text.notation import JsonNotation
from agentkit_runtime.text.python_notation import PythonNotation
from agentkit_runtime.text.tag_notation import TagNotation
from agentkit_runtime.text.template import ChatTemplate

FormatName = Literal[
    "hermes", "llama3", "mistral", "mistral_args", "deepseek", "deepseek31", "tags", "pythonic"
]

Notation = JsonNotation | TagNotation | PythonNotation

JSON = JsonNotation()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """The texts around tool calls.

    A message with calls is: content, `gap` if there is content, `opening`, the calls with
    `separator` between them, `closing`. Each call is `before`, a JSON object, `after`; with
    `arguments_tag` it is `before`, the name, that tag, the arguments in `notation`, `after`.
    """

    name: FormatName
    arguments_key: Literal["arguments", "parameters"] = "arguments"
    notation: Notation = JSON
    trigger: str = ""
    """Generated text that contains this has begun a call; empty: see `triggers`."""
    replay: Literal["json", "named", "text"] = "json"
    """What a template that shows tools gets of a call in the history: its arguments as JSON; each
    argument by its name; or no call, but a message with its text."""
    lead: str = ""
    """A control token that models may write in front of a call, and templates leave out."""
    opening: str = ""
    before: str = ""
    after: str = ""
    separator: str = ""
    closing: str = ""
    forgotten: str = ""
    """The beginning of `before` that models leave out now and then; templates write it."""
    gap: str = ""
    allows_parallel: bool = True
    is_whole_message: bool = False
    """A call is the whole message, so text that does not begin like one holds none."""
    arguments_tag: str = ""
    """Stands between a call's name and its arguments, where they are not one JSON object."""

    def triggers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Texts of which each has begun a call, where these are the tools' names."""
        if self.forgotten:
            return (self.trigger, self.before.removeprefix(self.forgotten))
        if self.trigger:
            return (self.trigger, *([f"{self.lead}{self.trigger}"] if self.lead else []))
        return tuple(f"{self.opening}{self.before}{name}{self.arguments_tag}" for name in names)

    def call_text(self, name: str, arguments: str) -> str:
        """One call. `arguments` is JSON text; where calls are JSON it is not changed."""
        written = self.notation.written(arguments)
        return f"{self.before}{self.head(name)}{self.arguments_tag}{written}{self.tail}"

    def calls_text(self, calls: Iterable[tuple[str, str]]) -> str:
        """All calls of a message, each a name and its arguments as JSON text."""
        written = self.separator.join(self.call_text(*call) for call in calls)
        return f"{self.opening}{written}{self.closing}"

    @property
    def tail(self) -> str:
        """A call from behind its arguments on."""
        return self.after if self.arguments_tag else f"}}{self.after}"

    def head(self, name: str) -> str:
        """A call up to its arguments, or to the tag before them."""
        if self.arguments_tag:
            return name
        return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{self.arguments_key}": '


HERMES = ToolFormat(
    name="hermes",
    trigger="<tool_call>",
    before="<tool_call>\n",
    after="\n</tool_call>",
    separator="\n",
    gap="\n",
)
"""`<tool_call>` around a JSON object: Hermes, Qwen, SmolLM2, and models without a format."""

LLAMA3 = ToolFormat(
    name="llama3",
    arguments_key="parameters",
    lead="<|python_tag|>",
    trigger='{"name": "',
    allows_parallel=False,
    is_whole_message=True,
)
"""A message that is one JSON object: Llama 3.x."""

MISTRAL = ToolFormat(
    name="mistral",
    trigger="[TOOL_CALLS]",
    opening="[TOOL_CALLS] [",
    separator=", ",
    closing="]",
)
"""`[TOOL_CALLS]` and a JSON array: Mistral."""

MISTRAL_ARGS = ToolFormat(
    name="mistral_args",
    trigger="[TOOL_CALLS]",
    before="[TOOL_CALLS]",
    arguments_tag="[ARGS]",
)
"""`[TOOL_CALLS]`, a name, `[ARGS]` and the arguments, for each call: Mistral's models since 2025
(tokenizers v11 and v13), such as Mistral Small 3.2, Devstral and Magistral."""

DEEPSEEK = ToolFormat(
    name="deepseek",
    trigger="<｜tool▁calls▁begin｜>",
    opening="<｜tool▁calls▁begin｜>",
    before="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    arguments_tag="\n```json\n",
    after="\n```<｜tool▁call▁end｜>",
    separator="\n",
    closing="<｜tool▁calls▁end｜>",
)
"""DeepSeek's marks around a name and a block of JSON: V3, R1 and the models distilled from it."""

DEEPSEEK31 = ToolFormat(
    name="deepseek31",
    trigger="<｜tool▁calls▁begin｜>",
    opening="<｜tool▁calls▁begin｜>",
    before="<｜tool▁call▁begin｜>",
    arguments_tag="<｜tool▁sep｜>",
    after="<｜tool▁call▁end｜>",
    closing="<｜tool▁calls▁end｜>",
)
"""The same marks around a name and the bare arguments: DeepSeek since V3.1."""

TAGS = ToolFormat(
    name="tags",
    notation=TagNotation(),
    replay="named",
    trigger="<tool_call>",
    before="<tool_call>\n<function=",
    forgotten="<tool_call>\n",
    arguments_tag=">\n",
    after="</function>\n</tool_call>",
    separator="\n",
    gap="\n\n",
)
"""`<tool_call>` around a tag for the name and one for each argument: Qwen3-Coder and later ones."""

PYTHONIC = ToolFormat(
    name="pythonic",
    notation=PythonNotation(),
    replay="text",
    opening="[",
    arguments_tag="(",
    after=")",
    separator=", ",
    closing="]",
    is_whole_message=True,
)
"""A message that is a list of calls in Python: Llama 3.2 and 4, where the template asks for it.

Templates print texts without quotes, or numbers with them, so calls are replayed as messages."""

TOOL_FORMATS: Mapping[FormatName, ToolFormat] = MappingProxyType(
    {
        tool_format.name: tool_format
        for tool_format in (
            *(HERMES, LLAMA3, MISTRAL, MISTRAL_ARGS),
            *(DEEPSEEK, DEEPSEEK31, TAGS, PYTHONIC),
        )
    }
)


def tool_format_for(template: ChatTemplate) -> ToolFormat:
    """The format in which a template replays calls; Hermes for templates that know none.

    DeepSeek's own templates know calls, but show no tools.
    """
    if DEEPSEEK.opening in template.source:
        return DEEPSEEK if "```json" in template.source else DEEPSEEK31
    if not template.traits.supports_tools:
        return HERMES
    if "<function=" in template.source and "<parameter=" in template.source:
        return TAGS
    if template.traits.calls_in_python:
        return PYTHONIC
    if "[TOOL_CALLS]" in template.source:
        return MISTRAL_ARGS if "[ARGS]" in template.source else MISTRAL
    if "<tool_call>" not in template.source and '"parameters"' in template.source:
        return LLAMA3
    return HERMES
