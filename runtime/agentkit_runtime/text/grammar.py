"""Which grammar a chat request puts on the reply: tool calls, JSON answers, or both.

The grammar's JSON has one space after commas and colons and no other white space between tokens;
`ToolFormat` writes calls in the history the same way, so what was generated is rendered again
byte for byte.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial

from llguidance import LLMatcher

from agentkit_runtime.chat import ChatRequest, ChatTool
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.call_names import require_readable_names
from agentkit_runtime.text.constraint import AlwaysConstrained, ConstrainedAfterTrigger, Vocabulary
from agentkit_runtime.text.engine_tokenizer import engine_tokenizer
from agentkit_runtime.text.first_use import first_use_error
from agentkit_runtime.text.looser import LooserTools
from agentkit_runtime.text.reply_plan import ReplyPlan, plan_of, unenforceable
from agentkit_runtime.text.reply_rules import after_thinking, lark_source, sources_alone
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.tool_formats import ToolFormat
from agentkit_runtime.types import Grammar

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
        plan = plan_of(request, tool_format)
        if not plan.tools and plan.schema is None:
            return None
        if not request.loosens_tools:
            return self._grammar(plan, thinking_ends)
        plan = replace(plan, tools=self._looser.applied(plan.tools))
        try:
            return self._grammar(plan, thinking_ends)
        except RequestRejected:
            self._looser.learn(plan.tools, partial(self._problem, plan))
        plan = replace(plan, tools=self._looser.applied(plan.tools))
        return self._grammar(plan, thinking_ends)

    def _grammar(self, plan: ReplyPlan, thinking_ends: str | None) -> Grammar:
        source = lark_source(plan, self._vocabulary)
        if thinking_ends is not None and not plan.is_free_first:
            source = after_thinking(source, thinking_ends, self._vocabulary)
            return ConstrainedAfterTrigger(
                self._vocabulary,
                self._matcher(source, plan),
                triggers=[thinking_ends.encode()],
                only_at_start=False,
            )
        matcher = self._matcher(source, plan)
        if plan.is_free_first:
            names = [tool.name for _, tool in plan.tools]
            return ConstrainedAfterTrigger(
                self._vocabulary,
                matcher,
                triggers=[trigger.encode() for trigger in plan.tool_format.triggers(names)],
                only_at_start=plan.tool_format.is_whole_message,
            )
        return AlwaysConstrained(self._vocabulary, matcher)

    def _problem(self, plan: ReplyPlan, index: int, tool: ChatTool) -> str | None:
        """Why a tool's parameters cannot be enforced by themselves; None: they can."""
        alone = replace(plan, tools=((index, tool),), schema=None)
        try:
            ((_, source),) = sources_alone(alone, self._vocabulary)
            self._matcher(source, alone)
        except RequestRejected as error:
            return str(error)
        return None

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self._tokenizer, engine_tokenizer(self._tokenizer))

    def _matcher(self, source: str, plan: ReplyPlan) -> LLMatcher:
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

    def _fill(self, compiled: Future[LLMatcher], key: tuple[str, str], plan: ReplyPlan) -> None:
        try:
            compiled.set_result(self._compile(key[1], plan))
        except BaseException as error:
            with self._lock:
                if self._compiled.get(key) is compiled:
                    del self._compiled[key]
            compiled.set_exception(error)

    def _compile(self, source: str, plan: ReplyPlan) -> LLMatcher:
        require_readable_names(plan)
        engine = self._vocabulary.engine
        compiled = LLMatcher(engine, LLMatcher.grammar_from_lark(source), log_level=0)
        if compiled.is_error():
            self._reject(plan, compiled.get_error())
        for field, alone in sources_alone(plan, self._vocabulary):
            grammar = LLMatcher.grammar_from_lark(alone)
            error = first_use_error(self._vocabulary, LLMatcher(engine, grammar, log_level=0))
            if error is not None:
                raise unenforceable(field, f"it is too complex ({_line(error)[:100]}); simplify it")
        return compiled

    def _reject(self, plan: ReplyPlan, whole_error: str) -> None:
        """Raise for the schema that is at fault."""
        for field, alone in sources_alone(plan, self._vocabulary):
            grammar = LLMatcher.grammar_from_lark(alone)
            is_error, messages = LLMatcher.validate_grammar_with_warnings(
                grammar, self._vocabulary.engine
            )
            if is_error:
                raise unenforceable(field, _line(" ".join(messages)))
        raise RequestRejected(
            f"the grammar cannot be compiled: {_line(whole_error)}", field="tools"
        )


def _line(message: str) -> str:
    return " ".join(message.split())[:500]
