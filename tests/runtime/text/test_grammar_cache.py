"""Compiled grammars are shared by requests of one tenant, and compiling holds nobody else up."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from llguidance import LLMatcher

from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import HERMES
from agentkit_runtime.types import Grammar

BOUND_S = 30.0


class HeldCompiler(GrammarCompiler):
    """Compiles grammars that name `slow` once it is let go on."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.go_on = threading.Event()
        self.is_compiling = threading.Event()
        self.n_slow = 0

    def _compile(self, source: str, plan: Any) -> LLMatcher:
        if "slow" in source:
            self.n_slow += 1
            self.is_compiling.set()
            assert self.go_on.wait(BOUND_S)
        return super()._compile(source, plan)


def asked(name: str, tenant: str = "ann", **schema: Any) -> ChatRequest:
    tool = ChatTool(name=name, description="", parameters={"type": "object", **schema})
    message = ChatMessage(role="user", content="Hi")
    return ChatRequest(messages=(message,), tools=(tool,), tenant=tenant)


def test_while_one_grammar_is_compiled_others_are_had(smollm2: Tokenizer) -> None:
    compiler = HeldCompiler(smollm2)
    compiler.compile_for(asked("quick", "bob"), HERMES)

    with ThreadPoolExecutor(3) as threads:
        slow = threads.submit(compiler.compile_for, asked("slow"), HERMES)
        try:
            assert compiler.is_compiling.wait(BOUND_S)
            known = threads.submit(compiler.compile_for, asked("quick", "bob"), HERMES)
            new = threads.submit(compiler.compile_for, asked("fresh", "bob"), HERMES)

            assert known.result(BOUND_S) is not None
            assert new.result(BOUND_S) is not None
            assert not slow.done()
        finally:
            compiler.go_on.set()
        assert slow.result(BOUND_S) is not None


def test_who_wants_what_is_being_compiled_waits_for_it(smollm2: Tokenizer) -> None:
    compiler = HeldCompiler(smollm2)

    with ThreadPoolExecutor(2) as threads:
        both: list[Future[Grammar | None]] = [
            threads.submit(compiler.compile_for, asked("slow"), HERMES) for _ in range(2)
        ]
        assert compiler.is_compiling.wait(BOUND_S)
        compiler.go_on.set()
        first, second = (one.result(BOUND_S) for one in both)

    assert compiler.n_slow == 1
    assert first is not None
    assert first is not second


def test_what_cannot_be_compiled_is_refused_each_time(smollm2: Tokenizer) -> None:
    compiler = GrammarCompiler(smollm2)
    wrong = asked("wrong", properties={"a": {"type": "string", "pattern": "("}})

    for _ in range(2):
        with pytest.raises(RequestRejected):
            compiler.compile_for(wrong, HERMES)
