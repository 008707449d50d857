"""Documents change in versions; running conversations are told, and nothing is left in silence."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import Agent
from agentkit.blocks import AssistantMessage, Text, ToolMessage, UserMessage
from agentkit.context import Context, SystemPart, SystemText
from agentkit.context.turns import is_delta
from agentkit.knowledge import (
    Added,
    Changed,
    Knowledge,
    KnowledgeError,
    Withdrawn,
    as_message,
    uris_in,
)
from agentkit.testing import Call, ScriptedModel, assert_extends, assert_prefix_stable


def test_each_change_is_a_version_and_an_equal_text_is_none() -> None:
    knowledge = Knowledge()
    assert knowledge.version == 0
    assert knowledge.put("a", "1") == 1
    assert knowledge.put("a", "1") == 1
    assert knowledge.put("a", "2") == 2
    assert knowledge.remove("nobody") == 2
    assert knowledge.remove("a") == 3
    assert knowledge.get("a") is None
    assert knowledge.put_all({"b": "x", "c": "y"}) == 5
    assert list(knowledge.etags()) == ["b", "c"]
    assert list(knowledge.etags(2)) == ["a"]


def test_a_snapshot_stays_as_it_was() -> None:
    knowledge = Knowledge()
    knowledge.put("a", "euro")
    old = knowledge.snapshot()
    knowledge.put("a", "dollar")

    assert knowledge.snapshot(1).digest == old.digest
    assert [each.text for each in old.documents] == ["euro"]
    assert [each.text for each in knowledge.snapshot().documents] == ["dollar"]
    assert knowledge.snapshot() is knowledge.snapshot()
    assert old.select("dollar") == ()


def test_changes_are_the_difference_and_not_the_history() -> None:
    knowledge = Knowledge()
    knowledge.put_all({"kept": "k", "edited": "old", "gone": "g", "back": "b"})
    since = knowledge.version
    knowledge.put("edited", "new")
    knowledge.put("back", "other")
    knowledge.put("back", "b")
    knowledge.remove("gone")
    knowledge.put("fresh", "f")

    edited, fresh, gone = knowledge.changes(since)
    assert isinstance(edited, Changed)
    assert (edited.uri, edited.text) == ("edited", "new")
    assert isinstance(fresh, Added)
    assert gone == Withdrawn(uri="gone")
    assert knowledge.changes(knowledge.version) == ()
    assert knowledge.changes(since, uris=["gone", "nobody"]) == (gone,)
    with pytest.raises(KnowledgeError, match=r"no version 99; the latest is"):
        knowledge.changes(99)


def test_a_model_is_told_what_changed_and_what_was_withdrawn() -> None:
    knowledge = Knowledge()
    knowledge.put_all({"x": "old", "y": "wrong"})
    since = knowledge.version
    knowledge.put("x", "new")
    knowledge.remove("y")
    changes = knowledge.changes(since)
    message = as_message(changes)

    assert "Document 'x' changed. This is its new text:\nnew" in message.text
    assert "Document 'y' was withdrawn: do not use what was said from it." in message.text
    assert as_message(reversed(changes)) == message
    assert is_delta(message)
    with pytest.raises(KnowledgeError, match="nothing"):
        as_message(())


def test_an_edit_in_the_middle_of_a_run_changes_only_what_comes_behind() -> None:
    """C19: a memory edit rewrote the skills, files and subagent texts that came after it."""
    knowledge = Knowledge()
    knowledge.put_all({"memory": "likes tea", "skill": "how to brew"})
    context = Context(
        SystemText(SystemPart.RULES, "Be brief."),
        *knowledge.snapshot().documents,
        UserMessage.of("What do I like?"),
        AssistantMessage((Text("Tea."),)),
    )
    since = knowledge.version
    knowledge.put("memory", "likes coffee")
    told = context.append(as_message(knowledge.changes(since, uris=uris_in(context))))

    assert_extends(context.dump(), told.dump())
    assert "likes coffee" in told.messages[-1].text  # type: ignore[union-attr]
    # The next run is built on the new version: only the edited document's bytes differ.
    anew = Context(context.segments[0].content, *knowledge.snapshot().documents)
    assert anew.common_length(context) == 1
    assert anew.segments[2] == context.segments[2]


def test_a_conversation_has_seen_what_is_in_its_front_and_what_searches_found() -> None:
    knowledge = Knowledge()
    knowledge.put_all({"front": "euro", "found#1": "dollar", "never": "yen"})
    agent = Agent(
        model=ScriptedModel([Call("search_knowledge", {"query": "dollars"}), "done"]),
        name="desk",
        tools=[knowledge.tool()],
        knowledge=knowledge.select("euro"),
    )
    result = agent.run_sync("go")

    assert uris_in(result.context) == {"front", "found#1"}
    since = knowledge.version
    knowledge.remove("found#1")
    knowledge.remove("never")
    changes = knowledge.changes(since, uris=uris_in(result.context))
    assert changes == (Withdrawn(uri="found#1"),)


def test_the_search_tool_shows_passages_in_the_order_of_their_documents() -> None:
    knowledge = Knowledge()
    knowledge.put_all({"b": "euro euro euro", "a": "the euro is here", "c": "nothing"})
    model = ScriptedModel(
        [
            Call("search_knowledge", {"query": "euro"}),
            Call("search_knowledge", {"query": "zebra"}),
            "done",
        ]
    )
    result = Agent(model=model, name="desk", tools=[knowledge.tool()]).run_sync("go")
    first, second = (
        message.results[0] for message in result.messages if isinstance(message, ToolMessage)
    )

    assert first.content == "[a#0000]\nthe euro is here\n\n[b#0000]\neuro euro euro"
    assert "No passage has any of the words of 'zebra'" in second.content
    assert_prefix_stable(model.calls)


def test_the_tools_bytes_do_not_depend_on_what_it_searches() -> None:
    first, second = Knowledge(), Knowledge()
    second.put("a", "text")

    assert first.tool().spec.bytes == second.tool().spec.bytes
    assert first.tool(name="docs").spec.name == "docs"


def test_invalidating_reads_a_document_again() -> None:
    documents: dict[str, str] = {"a": "1"}
    knowledge = Knowledge(loader=documents.get)
    knowledge.invalidate("a")
    assert knowledge.get("a") == "1"
    documents["a"] = "2"
    assert knowledge.invalidate("a") == 2
    assert knowledge.invalidate("a") == 2
    del documents["a"]
    knowledge.invalidate("a")

    assert knowledge.get("a") is None
    assert knowledge.changes(2) == (Withdrawn(uri="a"),)
    with pytest.raises(KnowledgeError, match="without a loader"):
        Knowledge().invalidate("a")


def test_a_loader_that_fails_changes_nothing() -> None:
    def load(uri: str) -> str:
        raise ConnectionError(uri)

    knowledge = Knowledge(loader=load)
    knowledge.put("a", "1")
    with pytest.raises(ConnectionError):
        knowledge.handle_webhook({"events": [{"uri": "b", "text": "x"}, {"uri": "a"}]})
    assert knowledge.version == 1


def test_a_webhook_changes_and_withdraws_and_may_come_twice() -> None:
    knowledge = Knowledge(loader={"read": "again"}.get)
    knowledge.put("gone", "g")
    body: Mapping[str, object] = {
        "id": "evt_1",
        "events": [
            {"uri": "sent", "kind": "updated", "text": "s", "etag": "ignored"},
            {"uri": "gone", "kind": "deleted"},
            {"uri": "read"},
        ],
    }
    version = knowledge.handle_webhook(body)

    assert knowledge.handle_webhook(body) == version
    assert list(knowledge.etags()) == ["read", "sent"]
    assert knowledge.handle_webhook({"uri": "sent", "text": "t"}) == version + 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "uri: Field required"),
        ({"events": []}, "events"),
        ({"events": [{"uri": "a", "text": "x"}, {"uri": ""}]}, r"events\.1\.uri"),
        ({"uri": "a", "kind": "moved"}, "kind"),
        ({"uri": "a", "text": 3}, "text"),
    ],
)
def test_a_webhook_of_another_form_is_refused_whole(body: dict[str, object], words: str) -> None:
    knowledge = Knowledge()
    with pytest.raises(KnowledgeError, match=words):
        knowledge.handle_webhook(body)
    assert knowledge.version == 0


WRITER = """
import sys
from agentkit.knowledge import Knowledge
with Knowledge(sys.argv[1]) as knowledge:
    knowledge.put("other", "written elsewhere")
    knowledge.remove("mine")
"""


def test_what_another_process_writes_is_seen_at_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.sqlite"
    with Knowledge(path) as knowledge:
        knowledge.put("mine", "m")
        since = knowledge.version
        assert knowledge.select("elsewhere") == ()
        subprocess.run(
            [sys.executable, "-c", WRITER, str(path)],
            env={"PYTHONPATH": "."},
            check=True,
            timeout=60,
        )
        assert [each.uri for each in knowledge.select("elsewhere")] == ["other#0000"]
        assert [change.kind for change in knowledge.changes(since)] == ["withdrawn", "added"]
    with Knowledge(path) as again:
        assert again.version == 3
        assert again.snapshot(path=tmp_path / "v3").uris == ("other",)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no database" * 100)
    with pytest.raises(KnowledgeError, match="is no store of knowledge"):
        Knowledge(path)
    with pytest.raises(KnowledgeError, match="does its folder exist"):
        Knowledge(tmp_path / "missing" / "knowledge.sqlite")


def test_threads_and_connections_lose_no_version(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.sqlite"
    with Knowledge(path) as first, Knowledge(path) as second:
        failures: list[BaseException] = []

        def write(knowledge: Knowledge, name: str) -> None:
            try:
                for number in range(15):
                    knowledge.put(f"{name}{number}", name)
                    knowledge.snapshot()
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=write, args=(knowledge, name))
            for knowledge, name in ((first, "a"), (first, "b"), (second, "c"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert failures == []
        assert first.version == second.version == 45
        assert first.snapshot().digest == second.snapshot().digest


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from(["1", "2"]))),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.integers(0, 12))
def test_a_version_and_its_changes_give_the_latest_version(
    steps: list[tuple[str, str | None]], at: int
) -> None:
    with Knowledge() as knowledge:
        model: dict[str, str] = {}
        states = [dict(model)]
        for uri, text in steps:
            if text is None:
                knowledge.remove(uri)
                model.pop(uri, None)
            else:
                knowledge.put(uri, text)
                model[uri] = text
            if model != states[-1]:
                states.append(dict(model))
        assert knowledge.version == len(states) - 1
        since = min(at, knowledge.version)
        rebuilt = dict(states[since])
        for change in knowledge.changes(since):
            if isinstance(change, Withdrawn):
                del rebuilt[change.uri]
            else:
                rebuilt[change.uri] = change.text
        assert rebuilt == model
        assert list(knowledge.etags(since)) == sorted(states[since])
