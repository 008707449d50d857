"""The grammar of a reply as Lark rules: the calls in a model's format, and an answer in JSON."""

from __future__ import annotations

from agentkit_runtime.chat import ChatTool
from agentkit_runtime.text.constraint import Vocabulary
from agentkit_runtime.text.lark import lark_literal, lark_plain, lark_schema
from agentkit_runtime.text.reply_plan import (
    ReplyPlan,
    answer_schema,
    arguments_schema,
    field_of,
    unenforceable,
)
from agentkit_runtime.text.schema_bounds import UnboundableSchema
from agentkit_runtime.text.tool_formats import ToolFormat

MAX_PARALLEL_CALLS = 16
"""How many calls one reply can hold where several are allowed."""


def lark_source(plan: ReplyPlan, vocabulary: Vocabulary) -> str:
    """The grammar of a reply in llguidance's dialect of Lark."""
    starts: list[str] = []
    rules: list[str] = []
    if plan.tools:
        starts.append("calls")
        rules += _call_rules(plan, vocabulary)
    if plan.schema is not None:
        starts.append("answer")
        rules.append(f"answer: {lark_schema(answer_schema(plan.schema))}")
    return "\n".join([f"start: {' | '.join(starts)}", *rules])


def after_thinking(source: str, closing: str, vocabulary: Vocabulary) -> str:
    """The grammar behind the tag that ends thinking, and up to two line breaks."""
    start, *rules = source.split("\n")
    answer = start.replace("start:", "after_thinking:", 1)
    opening = f'start: {lark_literal(closing, vocabulary)} "\\n"{{0,2}} after_thinking'
    return "\n".join([opening, answer, *rules])


def _call_rules(plan: ReplyPlan, vocabulary: Vocabulary) -> list[str]:
    tool_format = plan.tool_format
    several = plan.is_parallel and tool_format.allows_parallel

    def text(value: str) -> str:
        return lark_literal(value, vocabulary)

    more = f" ({text(tool_format.separator)} call){{0,{MAX_PARALLEL_CALLS - 1}}}" if several else ""
    lead = _lead(plan, vocabulary)
    kinds = " | ".join(f"call_{i}" for i, _ in plan.tools)
    first = "(call | bare)" if plan.is_free_first and tool_format.forgotten else "call"
    rest = tool_format.before.removeprefix(tool_format.forgotten)
    rules = [
        f"calls: {lead} {text(tool_format.opening)} {first}{more} {text(tool_format.closing)}",
        f"call: {text(tool_format.before)} ({kinds}) {text(tool_format.tail)}",
        *([f"bare: {text(rest)} ({kinds}) {text(tool_format.tail)}"] if first != "call" else []),
    ]
    for i, tool in plan.tools:
        # Plain: a tool's name comes from outside and must not become a control token.
        head = f"{lark_plain(tool_format.head(tool.name))} {text(tool_format.arguments_tag)}"
        rules += [f"call_{i}: {head} arguments_{i}"]
        rules += argument_rules(i, tool, tool_format, vocabulary)
    return rules


def _lead(plan: ReplyPlan, vocabulary: Vocabulary) -> str:
    """A token in front of the calls, which a model may choose and is not led to."""
    lead = plan.tool_format.lead
    if not plan.is_free_first or lead not in vocabulary.tokenizer.special_texts:
        return ""
    return f"({lark_literal(lead, vocabulary)})?"


def argument_rules(
    index: int, tool: ChatTool, tool_format: ToolFormat, vocabulary: Vocabulary
) -> list[str]:
    """Rules of which `arguments_<index>` stands for a call's arguments.

    `RequestRejected` where they cannot be held to the tool's schema.
    """
    schema = arguments_schema(index, tool)
    try:
        return tool_format.notation.rules(f"arguments_{index}", schema, vocabulary)
    except UnboundableSchema as error:
        field = field_of(index)
        raise unenforceable(f"{field} (tool {tool.name!r})", str(error), field) from error


def sources_alone(plan: ReplyPlan, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """A grammar for each schema by itself, with the field it came from."""
    alone: list[tuple[str, str]] = []
    for i, tool in plan.tools:
        rules = argument_rules(i, tool, plan.tool_format, vocabulary)
        alone.append((field_of(i), "\n".join([f"start: arguments_{i}", *rules])))
    if plan.schema is not None:
        alone.append(("response_schema", f"start: {lark_schema(answer_schema(plan.schema))}"))
    return alone
