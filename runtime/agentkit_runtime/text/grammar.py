"""Which grammar a chat request puts on the reply: tool calls, JSON answers, or both.

The grammar's JSON has one space after commas and colons and no other white space between tokens;
`ToolFormat` writes calls in the history the same way, so what was generated is rendered again
byte for byte.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial

from llguidance import LLMatcher

from agentkit_runtime.chat import ChatRequest, ChatTool, ToolName
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.constraint import AlwaysConstrained, ConstrainedAfterTrigger, Vocabulary
from agentkit_runtime.text.engine_tokenizer import engine_tokenizer
from agentkit_runtime.text.first_use import first_use_error
from agentkit_runtime.text.json_check import check_json
from agentkit_runtime.text.lark import lark_literal, lark_plain, lark_schema
from agentkit_runtime.text.looser import LooserTools
from agentkit_runtime.text.schema_bounds import UnboundableSchema, bounded, bounded_arguments
from agentkit_runtime.text.schema_endless import requires_itself
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.tool_formats import ToolFormat
from agentkit_runtime.types import Grammar

MAX_PARALLEL_CALLS = 16
"""How many calls one reply can hold where several are allowed."""

_CACHED_GRAMMARS = 64


class GrammarCompiler:
    """Compiles grammars for one tokenizer and keeps the latest ones. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._compiled: OrderedDict[tuple[str, str], Future[LLMatcher]] = OrderedDict()
        """What is being compiled is there, too: who wants the same waits for it.

        By tenant, too: how long a compilation takes would tell what others have asked for."""
        self._looser = LooserTools()

    def compile_for(
        self, request: ChatRequest, tool_format: ToolFormat, *, thinking_ends: str | None = None
    ) -> Grammar | None:
        """The grammar of one reply to `request`; None where any text is allowed.

        `thinking_ends` is the closing tag where the prompt has begun the reply's thinking: then
        what is required is required behind that tag.

        - `required` or a tool's name: exactly one call (one or more with `parallel_tool_calls`).
        - a response schema: JSON in the schema; with callable tools, that or calls.
        - `auto` with tools: free text until the format's trigger appears, then a call.

        Raises `RequestRejected`, naming the field, for tools that do not exist and for schemas that
        cannot be enforced; with `loosens_tools` those of tools never are the reason.
        """
        plan = replace(_plan(request), tenant=request.tenant)
        if not plan.tools and plan.schema is None:
            return None
        if not request.loosens_tools:
            return self._grammar(plan, request, tool_format, thinking_ends)
        plan = replace(plan, tools=self._looser.applied(plan.tools))
        try:
            return self._grammar(plan, request, tool_format, thinking_ends)
        except RequestRejected:
            self._looser.learn(plan.tools, partial(self._problem, request.tenant))
        plan = replace(plan, tools=self._looser.applied(plan.tools))
        return self._grammar(plan, request, tool_format, thinking_ends)

    def _grammar(
        self,
        plan: _Plan,
        request: ChatRequest,
        tool_format: ToolFormat,
        thinking_ends: str | None,
    ) -> Grammar:
        source = _lark_source(plan, request, tool_format, self._vocabulary)
        if thinking_ends is not None and not plan.is_free_first:
            source = _after_thinking(source, thinking_ends, self._vocabulary)
            return ConstrainedAfterTrigger(
                self._vocabulary,
                self._matcher(source, plan),
                trigger=thinking_ends.encode(),
                only_at_start=False,
            )
        matcher = self._matcher(source, plan)
        if plan.is_free_first:
            return ConstrainedAfterTrigger(
                self._vocabulary,
                matcher,
                trigger=tool_format.trigger.encode(),
                only_at_start=tool_format.is_whole_message,
            )
        return AlwaysConstrained(self._vocabulary, matcher)

    def _problem(self, tenant: str, index: int, tool: ChatTool) -> str | None:
        """Why a tool's parameters cannot be enforced by themselves; None: they can."""
        alone = _Plan(tools=((index, tool),), schema=None, is_free_first=False, tenant=tenant)
        try:
            self._matcher(f"start: {lark_schema(_arguments_schema(index, tool))}", alone)
        except RequestRejected as error:
            return str(error)
        return None

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self._tokenizer, engine_tokenizer(self._tokenizer))

    def _matcher(self, source: str, plan: _Plan) -> LLMatcher:
        """A fresh matcher; copying a compiled one is far cheaper than compiling."""
        key = (plan.tenant, source)
        with self._lock:
            compiled = self._compiled.get(key)
            is_new = compiled is None
            if compiled is None:
                compiled = self._compiled[key] = Future()
            self._compiled.move_to_end(key)
            if len(self._compiled) > _CACHED_GRAMMARS:
                self._compiled.popitem(last=False)
        if is_new:
            # Outside the lock: it can take seconds, and others have grammars of their own.
            self._fill(compiled, key, plan)
        original = compiled.result()
        with self._lock:
            return original.deep_copy()

    def _fill(self, compiled: Future[LLMatcher], key: tuple[str, str], plan: _Plan) -> None:
        try:
            compiled.set_result(self._compile(key[1], plan))
        except BaseException as error:
            with self._lock:
                if self._compiled.get(key) is compiled:
                    del self._compiled[key]
            compiled.set_exception(error)

    def _compile(self, source: str, plan: _Plan) -> LLMatcher:
        engine = self._vocabulary.engine
        compiled = LLMatcher(engine, LLMatcher.grammar_from_lark(source), log_level=0)
        if compiled.is_error():
            self._reject(plan, compiled.get_error())
        for field, schema in plan.schemas():
            grammar = LLMatcher.grammar_from_lark(f"start: {lark_schema(schema)}")
            error = first_use_error(self._vocabulary, LLMatcher(engine, grammar, log_level=0))
            if error is not None:
                raise _unenforceable(
                    field, f"it is too complex ({_line(error)[:100]}); simplify it"
                )
        return compiled

    def _reject(self, plan: _Plan, whole_error: str) -> None:
        """Raise for the schema that is at fault."""
        for field, schema in plan.schemas():
            grammar = LLMatcher.grammar_from_lark(f"start: {lark_schema(schema)}")
            is_error, messages = LLMatcher.validate_grammar_with_warnings(
                grammar, self._vocabulary.engine
            )
            if is_error:
                raise _unenforceable(field, _line(" ".join(messages)))
        raise RequestRejected(
            f"the grammar cannot be compiled: {_line(whole_error)}", field="tools"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a reply may be."""

    tools: tuple[tuple[int, ChatTool], ...]
    """Callable tools with their place in the request."""
    schema: Mapping[str, object] | None
    """Schema of an answer that is not a call."""
    is_free_first: bool
    """Any text may be written, until it turns into a call."""
    tenant: str = ""
    """Whose it is."""

    def schemas(self) -> list[tuple[str, dict[str, object]]]:
        """The bounded schemas, each with the field it came from."""
        named = [(_field(i), _arguments_schema(i, tool)) for i, tool in self.tools]
        if self.schema is not None:
            named.append(("response_schema", _answer_schema(self.schema)))
        return named


def _plan(request: ChatRequest) -> _Plan:
    tools = _callable_tools(request)
    choice = request.tool_choice
    if isinstance(choice, ToolName):
        chosen = tuple((i, tool) for i, tool in tools if tool.name == choice.name)
        if not chosen:
            raise RequestRejected(
                f"tool_choice names {choice.name!r}, which is not among the callable tools "
                f"{[tool.name for _, tool in tools]}",
                field="tool_choice",
            )
        return _Plan(tools=chosen, schema=None, is_free_first=False)
    if choice == "required":
        if not tools:
            raise RequestRejected(
                "tool_choice is 'required', but no tool can be called", field="tool_choice"
            )
        return _Plan(tools=tools, schema=None, is_free_first=False)
    if choice == "none":
        tools = ()
    is_free_first = bool(tools) and request.response_schema is None
    return _Plan(tools=tools, schema=request.response_schema, is_free_first=is_free_first)


def _callable_tools(request: ChatRequest) -> tuple[tuple[int, ChatTool], ...]:
    allowed = request.allowed_tools
    if allowed is None:
        return tuple(enumerate(request.tools))
    unknown = allowed - {tool.name for tool in request.tools}
    if unknown:
        raise RequestRejected(
            f"allowed_tools names {sorted(unknown)}, which are not among the tools "
            f"{[tool.name for tool in request.tools]}",
            field="allowed_tools",
        )
    return tuple((i, tool) for i, tool in enumerate(request.tools) if tool.name in allowed)


def _lark_source(
    plan: _Plan, request: ChatRequest, tool_format: ToolFormat, vocabulary: Vocabulary
) -> str:
    """The grammar in llguidance's dialect of Lark."""
    starts: list[str] = []
    rules: list[str] = []
    if plan.tools:
        starts.append("calls")
        several = request.parallel_tool_calls and tool_format.allows_parallel
        rules += _call_rules(plan.tools, several, tool_format, vocabulary)
    if plan.schema is not None:
        starts.append("answer")
        rules.append(f"answer: {lark_schema(_answer_schema(plan.schema))}")
    return "\n".join([f"start: {' | '.join(starts)}", *rules])


def _after_thinking(source: str, closing: str, vocabulary: Vocabulary) -> str:
    """The grammar behind the tag that ends thinking, and up to two line breaks."""
    start, *rules = source.split("\n")
    answer = start.replace("start:", "after_thinking:", 1)
    opening = f'start: {lark_literal(closing, vocabulary)} "\\n"{{0,2}} after_thinking'
    return "\n".join([opening, answer, *rules])


def _call_rules(
    tools: Sequence[tuple[int, ChatTool]],
    several: bool,
    tool_format: ToolFormat,
    vocabulary: Vocabulary,
) -> list[str]:
    def text(value: str) -> str:
        return lark_literal(value, vocabulary)

    more = f" ({text(tool_format.separator)} call){{0,{MAX_PARALLEL_CALLS - 1}}}" if several else ""
    kinds = " | ".join(f"call_{i}" for i, _ in tools)
    rules = [
        f"calls: {text(tool_format.opening)} call{more} {text(tool_format.closing)}",
        f"call: {text(tool_format.before)} ({kinds}) {text(tool_format.tail)}",
    ]
    for i, tool in tools:
        arguments = lark_schema(_arguments_schema(i, tool))
        # Plain: a tool's name comes from outside and must not become a control token.
        head = f"{lark_plain(tool_format.head(tool.name))} {text(tool_format.arguments_tag)}"
        rules += [f"call_{i}: {head} arguments_{i}"]
        rules += [f"arguments_{i}: {arguments}"]
    return rules


def _arguments_schema(index: int, tool: ChatTool) -> dict[str, object]:
    field = _field(index)
    check_json(tool.parameters, field)
    try:
        return _finite(field, bounded_arguments(tool.parameters))
    except UnboundableSchema as error:
        raise _unenforceable(f"{field} (tool {tool.name!r})", str(error), field) from error


def _answer_schema(schema: Mapping[str, object]) -> dict[str, object]:
    field = "response_schema"
    check_json(schema, field)
    try:
        return _finite(field, bounded(schema))
    except UnboundableSchema as error:
        raise _unenforceable(field, str(error)) from error


def _finite(field: str, schema: dict[str, object]) -> dict[str, object]:
    if requires_itself(schema):
        raise _unenforceable(
            field, "a value would have to hold itself; make the recursion optional"
        )
    return schema


def _field(index: int) -> str:
    return f"tools[{index}].parameters"


def _unenforceable(what: str, why: str, field: str | None = None) -> RequestRejected:
    return RequestRejected(f"{what} cannot be enforced: {why}", field=field or what)


def _line(message: str) -> str:
    return " ".join(message.split())[:500]
