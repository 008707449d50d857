"""Random conversations: documents change, contexts get too long, runs go on; nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from agentkit import Agent, CompactionRule, Context
from agentkit.blocks import AssistantMessage, Message, UserMessage
from agentkit.context.turns import is_summary
from agentkit.knowledge import Knowledge
from agentkit.knowledge.changes import is_told_of_more, uris_in_front
from agentkit.knowledge.shown import outdated, shown_uris, unknown
from agentkit.models import ModelRequest
from agentkit.testing import Call, Say, ScriptedModel, assert_prefix_stable
from tests.agentkit.digger import is_summary_request

RULE = CompactionRule(trigger_tokens=3_000, limit_tokens=4_500, summary_tokens=150)
URIS = ("a.md", "b.md", "c.md")

edits = st.tuples(st.sampled_from(URIS), st.none() | st.integers(0, 3))
"""A document, and the number of its new text; None withdraws it."""
turns = st.tuples(st.integers(1, 400), st.lists(edits, max_size=2))
"""How long the tool's result is, in words, and what changes meanwhile."""
runs = st.tuples(
    st.lists(turns, min_size=1, max_size=6), st.lists(edits, max_size=2), st.booleans()
)
"""The turns of a run, what changes after it, and whether it is put away then."""


class Story:
    """One conversation over several runs."""

    def __init__(self, knowledge: Knowledge, repeats: int, knowledge_tokens: int) -> None:
        self.knowledge = knowledge
        self.repeats = repeats
        self.knowledge_tokens = knowledge_tokens
        self.todo: Iterator[tuple[int, list[tuple[str, int | None]]]] = iter(())
        self.n_calls = itertools.count()
        self.model = ScriptedModel(self.step)
        self.agent = self.new_agent()
        self.context: Context | None = None
        self.messages: list[Message] = []

    def new_agent(self) -> Agent[Any, Any]:
        def work(n: int, words: int) -> str:
            """Work."""
            return f"{n} " + "word " * words

        return Agent(
            model=self.model,
            name="worker",
            rules="Be exact. " * 20,
            knowledge=self.knowledge,
            knowledge_tokens=self.knowledge_tokens,
            tools=[work],
            compaction=RULE,
        )

    def step(self, request: ModelRequest) -> Any:
        if is_summary_request(request):
            return "A summary. " * 20
        turn = next(self.todo, None)
        if turn is None:
            return "Done."
        words, changes = turn
        self.edit(changes)  # while the model speaks
        return [Say("Next."), Call("work", {"n": next(self.n_calls), "words": words})]

    def edit(self, changes: list[tuple[str, int | None]]) -> None:
        for uri, number in changes:
            if number is None:
                self.knowledge.remove(uri)
            else:
                self.knowledge.put(uri, f"Text {number} of {uri}. " * self.repeats)

    async def run(self, number: int, todo: list[Any]) -> None:
        self.todo = iter(todo)
        result = await self.agent.run(f"Question {number}?", context=self.context)
        self.context = result.context
        self.messages += result.messages


def calls_of(messages: list[Message]) -> list[int]:
    return [
        json.loads(call.arguments)["n"]
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]


KINDS = ((5, 20_000), (60, 20_000), (300, 20_000), (60, 700), (60, 200))
"""How long texts are, and how many tokens of them may lie in the front: all, some, or none."""


def fits(kind: tuple[int, int]) -> bool:
    return kind[1] == 20_000


def shows_any(context: Context) -> bool:
    return bool(uris_in_front(context))


@settings(max_examples=200, deadline=None)
@given(st.lists(runs, min_size=1, max_size=4), st.sampled_from(KINDS))
def test_whatever_happens_the_model_knows_the_latest_and_prefixes_hold(
    story_of: list[tuple[list[Any], list[Any], bool]], kind: tuple[int, int]
) -> None:
    repeats, knowledge_tokens = kind
    with Knowledge() as knowledge:
        knowledge.put("a.md", "Text 0 of a.md. " * repeats)
        story = Story(knowledge, repeats, knowledge_tokens)
        for number, (todo, after, put_away) in enumerate(story_of):
            asyncio.run(story.run(number, todo))
            last = story.model.calls[-1].request
            # What the last request showed was the latest: nothing changes while the model answers.
            latest = knowledge.version
            assert outdated(last.context, knowledge, latest, everything=fits(kind)) == ()
            if unknown(knowledge, latest, shown_uris(last.context)) and shows_any(last.context):
                assert is_told_of_more(last.context)
            story.edit(after)
            if put_away:
                assert story.context is not None
                story.context = Context.load(story.context.dump())
                story.agent = story.new_agent()

        n_summaries = sum(is_summary_request(call.request) for call in story.model.calls)
        event(f"{min(n_summaries, 3)} summaries")
        n_epochs = max(call.request.epoch for call in story.model.calls)
        event(f"{n_epochs > n_summaries} begun anew for documents")
        assert_prefix_stable(story.model.calls)
        lengths = [len(call.wire) // 4 for call in story.model.calls]
        if repeats == 5:
            assert max(lengths) < RULE.limit + 2_500
        # All that was said is in the records, once and in order.
        assert calls_of(story.messages) == list(range(next(story.n_calls)))
        questions = [m.text for m in story.messages if isinstance(m, UserMessage)]
        asked = [text for text in questions if text.startswith("Question")]
        assert asked == [f"Question {n}?" for n in range(len(story_of))]
        assert not any(is_summary(message) for message in story.messages)
