"""Contexts against lists: whatever is appended and forked, earlier bytes never change."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from agentkit.blocks import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.context import Context, Document, SystemPart, SystemText
from agentkit.context.segment import Content
from agentkit.errors import ContextError

TEXT = st.text("ab\n\u2028é", max_size=4)
CONTENTS: st.SearchStrategy[Content] = st.one_of(
    st.builds(UserMessage.of, TEXT),
    st.builds(lambda text: AssistantMessage((Text(text),)), TEXT),
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

    @rule(target=known)
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
TestContexts.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
