"""Runs leave a database as JSON Lines, and enter another one with the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentkit.errors import ConfigurationError
from agentkit.journal import JournalError
from agentkit.saved import SavedRun
from agentkit.store import SqlJournal, open_journal
from tests.agentkit.store.made import FRONT, after_turn, begun, below, in_new_epoch


def _tree(name: str = "r", **fields: object) -> list[SavedRun]:
    """The values of a run of a session, and of one below it, in the order of their saves."""
    run = begun(name, **fields)
    kept = replace(run.memory, kept={"h": "long " * 500})
    child = below(run, f"{name} child")
    later = in_new_epoch(after_turn(run, memory=kept))
    return [run, child, after_turn(child, memory=kept), later]


async def _save(journal: SqlJournal, runs: list[SavedRun]) -> None:
    for run in runs:
        await journal.save(run)


async def test_a_run_is_the_same_in_another_database_and_goes_on_there(
    journal: SqlJournal, other_url: str
) -> None:
    await _save(journal, _tree())
    lines = await journal.export(run_id="r")
    with open_journal(other_url) as other:
        assert await other.import_(lines) == 2
        assert await other.load("r") == await journal.load("r")
        assert await other.export() == lines
        runs = await other.claim("r")
        await other.save(after_turn(runs[0]))
        assert (await other.load("r"))[0] == after_turn(runs[0])


async def test_what_an_older_version_has_exported_is_read(journal: SqlJournal) -> None:
    with open_journal("sqlite://") as other:
        await _save(other, _tree())
        lines, runs = await other.export(), await other.load("r")
    assert lines.startswith(b'{"kind":"agentkit runs","format":2}')
    assert await journal.import_(lines.replace(b'"format":2', b'"format":1', 1)) == 2
    assert await journal.load("r") == runs


async def test_to_import_twice_changes_nothing_and_more_steps_are_added(
    journal: SqlJournal,
) -> None:
    runs = _tree()
    with open_journal("sqlite://") as other:
        await _save(other, runs)
        first = await other.export()
        run = after_turn(runs[-1], status="done")
        await other.save(run)
        second = await other.export()
    assert await journal.import_(first) == 2
    assert await journal.import_(first) == 0
    assert await journal.import_(second) == 1
    assert await journal.import_(first) == 0  # an older one takes nothing back
    assert await journal.load("r") == (run, runs[-2])
    assert await journal.export() == second


async def test_a_session_is_exported_without_the_runs_of_others(journal: SqlJournal) -> None:
    await _save(journal, [*_tree("one", session="s"), *_tree("other")])
    with open_journal("sqlite://") as copy:
        assert await copy.import_(await journal.export(session="s")) == 2
        assert [row.run_id for row in await copy.runs()] == ["one"]
    for wrong in ({"session": "nobody"}, {"run_id": "nobody"}):
        with pytest.raises(JournalError, match=r"there is no (run|session) 'nobody'"):
            await journal.export(**wrong)


async def test_contexts_that_are_shared_are_exported_once(journal: SqlJournal) -> None:
    run = after_turn(begun("one"))
    await journal.save(run)
    await journal.save(begun("two", context=FRONT))
    lines = [json.loads(line) for line in (await journal.export()).splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds.count("segment") == kinds.count("link") == len(run.context)


async def test_a_run_that_went_another_way_is_refused_and_nothing_is_added(
    journal: SqlJournal,
) -> None:
    with open_journal("sqlite://") as other:
        await _save(other, [begun("new"), *_tree("r")])
        lines = await other.export()
    await _save(journal, [begun("r"), after_turn(begun("r"), "Another answer.")])
    before = await journal.export()
    with pytest.raises(JournalError, match="run 'r' is here already, and went another way"):
        await journal.import_(lines)
    assert await journal.export() == before


async def test_a_run_that_goes_on_does_not_enter_a_session_that_has_one(
    journal: SqlJournal,
) -> None:
    with open_journal("sqlite://") as other:
        await other.save(begun("r", session="s"))
        lines = await other.export()
    await journal.save(begun("mine", session="s"))
    with pytest.raises(JournalError, match="its session 's' has another run here"):
        await journal.import_(lines)


def _swap(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda lines: lines.replace(old, new)


def _line(change: Callable[[dict[str, Any]], object], kind: str) -> Callable[[bytes], bytes]:
    def damaged(lines: bytes) -> bytes:
        values = [json.loads(line) for line in lines.splitlines()]
        for value in values:
            if value["kind"] == kind:
                change(value)
        return b"".join(json.dumps(value).encode() + b"\n" for value in values)

    return damaged


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-1], "is cut off"),
        (lambda lines: b"", "no export|cut off|no JSON"),
        (_swap(b'"format":2', b'"format":3'), "no export that this version reads"),
        (_swap(b'"kind":"segment"', b'"kind":"poem"'), "no known kind"),
        (lambda lines: lines.replace(b"}\n", b"\n"), "no JSON Lines|no export"),
        (_line(lambda v: v.update(data="QUJD"), "segment"), "damaged segment: the bytes"),
        (_line(lambda v: v.update(segment="sha256:0"), "link"), "damaged link: the context"),
        (_line(lambda v: v.pop("steps"), "run"), "damaged run: 'steps'"),
        (_line(lambda v: v["run"].update(run_id=None), "run"), "failed: "),
        (_line(lambda v: v["run"].update(owner="me"), "run"), "damaged run: "),
    ],
)
async def test_damaged_lines_are_refused_and_nothing_is_added(
    journal: SqlJournal, damage: Callable[[bytes], bytes], message: str
) -> None:
    with open_journal("sqlite://") as other:
        await _save(other, _tree())
        lines = await other.export()
    with pytest.raises(JournalError, match=message):
        await journal.import_(damage(lines))
    assert await journal.runs() == ()
    assert (await journal.export()).count(b"\n") == 1


async def test_an_import_of_text_is_told_what_to_give() -> None:
    text: Any = "text"
    with open_journal("sqlite://") as journal:
        with pytest.raises(ConfigurationError, match=r"bytes that export returned.* got 'text'"):
            await journal.import_(text)
