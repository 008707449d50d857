"""Contexts against lists: whatever is appended, forked, rebased or compacted, within an epoch
earlier bytes never change, and an old epoch stays what it was."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from agentkit.blocks import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentkit.context import Context, Document, SystemPart, SystemText, ToolList
from agentkit.context.compact import compacted, summary_request_context
from agentkit.context.segment import Content
from agentkit.context.turns import without_thinking
from agentkit.context.version import rebase
from agentkit.errors import ContextError

MESSAGES = UserMessage | AssistantMessage | ToolMessage
TEXT = st.text("ab\n\u2028é", max_size=4)
CONTENTS: st.SearchStrategy[Content] = st.one_of(
    st.builds(UserMessage.of, TEXT),
    st.builds(lambda text: AssistantMessage((Text(text),)), TEXT),
    st.builds(lambda text: AssistantMessage((Thinking(text, signature="s"), Text(text))), TEXT),
    st.just(ToolList(b'[{"description":"","name":"f","parameters":{}}]')),
    st.builds(SystemText, st.sampled_from(list(SystemPart)), TEXT),
    st.builds(Document, uri=TEXT, text=TEXT),
    st.builds(
        lambda ids: AssistantMessage(
            tuple(ToolCall(id=str(i), name="f", arguments="{ }") for i in ids)
        ),
        st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True),
    ),
)


class Contexts(RuleBasedStateMachine):
    """A tree of contexts, each beside the list that it should equal and its first bytes."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Context, list[Content], bytes]] = []

    @initialize(target=known)
    def begin(self) -> tuple[Context, list[Content]]:
        return self.keep(Context(), [])

    @rule(target=known, source=known, content=CONTENTS)
    def append(self, source: tuple[Context, list[Content]], content: Content) -> object:
        context, contents = source
        try:
            longer = context.append(content)
        except ContextError:
            return source
        assert longer.starts_with(context)
        assert longer.common_length(context) == len(context)
        return self.keep(longer, [*contents, content])

    @rule(target=known, source=known)
    def answer_open_calls(self, source: tuple[Context, list[Content]]) -> object:
        context, contents = source
        if not context.open_calls:
            return source
        results = ToolMessage(
            tuple(
                ToolResult(call_id=call.id, name=call.name, content="1")
                for call in context.open_calls
            )
        )
        return self.keep(context.append(results), [*contents, results])

    @rule(target=known, source=known)
    def fork(self, source: tuple[Context, list[Content]]) -> object:
        context, contents = source
        return self.keep(context.fork(), list(contents))

    @rule(target=known, source=known, text=TEXT)
    def set_volatile(self, source: tuple[Context, list[Content]], text: str) -> object:
        context, contents = source
        return self.keep(context.with_volatile(text), list(contents))

    @rule(target=known, source=known)
    def reload(self, source: tuple[Context, list[Content]]) -> object:
        context, contents = source
        return self.keep(Context.load(context.dump()), list(contents))

    @rule(target=known, source=known, front=known)
    def rebase(
        self,
        source: tuple[Context, list[Content]],
        front: tuple[Context, list[Content]],
    ) -> object:
        context, contents = source
        if context.open_calls:
            return source
        new = [each for each in front[1] if not isinstance(each, MESSAGES)]
        history = [without_thinking(each) for each in contents if isinstance(each, MESSAGES)]
        return self.keep(rebase(context, front[0].front), [*new, *history])

    @rule(target=known, source=known, summary=TEXT, keep_turns=st.integers(0, 3))
    def compact(
        self, source: tuple[Context, list[Content]], summary: str, keep_turns: int
    ) -> object:
        context, contents = source
        if context.open_calls or not summary.strip():
            return source
        asked = summary_request_context(context)
        assert asked.dump().startswith(context.dump())
        epoch = compacted(context, summary, keep_turns)
        assert epoch.front == context.front
        assert epoch.open_calls == ()
        kept = epoch.messages[1:]
        assert sum(isinstance(each, AssistantMessage) for each in kept) <= keep_turns
        history = [without_thinking(each) for each in contents if isinstance(each, MESSAGES)]
        assert list(kept) == history[len(history) - len(kept) :]
        front = [each for each in contents if not isinstance(each, MESSAGES)]
        return self.keep(epoch, [*front, *epoch.messages])

    @rule(first=known, second=known)
    def compare(
        self, first: tuple[Context, list[Content]], second: tuple[Context, list[Content]]
    ) -> None:
        pairs = zip(first[1], second[1], strict=False)
        equal = 0
        for mine, theirs in pairs:
            if mine != theirs:
                break
            equal += 1
        assert first[0].common_length(second[0]) == equal
        assert first[0].starts_with(second[0]) == (second[1] == first[1][: len(second[1])])
        assert (first[0].digest == second[0].digest) == (first[1] == second[1])

    @invariant()
    def nothing_made_before_has_changed(self) -> None:
        for context, contents, data in self.made:
            assert [segment.content for segment in context] == contents
            assert context.dump() == data

    def keep(self, context: Context, contents: list[Content]) -> tuple[Context, list[Content]]:
        self.made.append((context, contents, context.dump()))
        return context, contents


TestContexts = Contexts.TestCase
TestContexts.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
