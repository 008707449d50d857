"""What is shown of the runs in a journal."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.report import RequestRecord
from agentkit.store import SqlJournal
from agentkit.usage import Timing, Usage
from tests.agentkit.priced import verdict
from tests.agentkit.store.made import after_turn, begun, below


async def test_runs_are_listed_newest_first_with_what_their_trees_came_to(
    journal: SqlJournal,
) -> None:
    await journal.save(begun("old", user="bob", status="done"))
    run = after_turn(begun("new", user="ann", session="s", prompt="Add. " * 100, tenant="t"))
    await journal.save(run)
    await journal.save(after_turn(after_turn(below(run, "child"))))
    new, old = await journal.runs()
    assert (new.run_id, new.session, new.user, new.tenant) == ("new", "s", "ann", "t")
    assert (new.agent, new.status, new.turn, new.n_runs) == ("adder", "running", 1, 2)
    assert new.task == ("Add. " * 100)[:200]
    assert (new.n_requests, new.input_tokens, new.cache_read_tokens) == (3, 300, 240)
    assert (new.output_tokens, new.cost, new.total_s) == (9, None, 1.0)
    assert new.began_at == 1000.0 < new.saved_at
    assert (old.run_id, old.n_requests, old.cost) == ("old", 0, None)


async def test_runs_are_found_by_session_user_and_status(journal: SqlJournal) -> None:
    for index, status in enumerate(["done", "failed", "paused", "running"]):
        user = "ann" if index % 2 else "bob"
        await journal.save(begun(f"{index}", user=user, session=f"s{index}", status=status))
    assert [row.run_id for row in await journal.runs(user="ann")] == ["3", "1"]
    assert [row.run_id for row in await journal.runs(session="s2")] == ["2"]
    assert [row.run_id for row in await journal.runs(status="done")] == ["0"]
    assert [row.run_id for row in await journal.runs(user="ann", status="failed")] == ["1"]
    assert [row.run_id for row in await journal.runs(limit=2)] == ["3", "2"]


async def test_money_is_added_up_to_the_last_digit_and_what_is_unknown_is_counted(
    journal: SqlJournal,
) -> None:
    run = begun()
    await journal.save(run)
    for usd in ("0.1", "0.00000000000000000000000000002", None):
        request = RequestRecord(
            path=("adder",), model="m", usage=Usage(), timing=Timing(), verdict=verdict(usd)
        )
        run = replace(run, requests=(*run.requests, request))
        await journal.save(run)
    (row,) = await journal.runs()
    assert row.cost == AtLeast(Decimal("0.10000000000000000000000000002"), unknown=1)


async def test_a_runs_steps_are_its_timeline(journal: SqlJournal) -> None:
    run = begun()
    for each in (run, after_turn(run), after_turn(run, status="done")):
        await journal.save(each)
    steps = await journal.steps("r")
    assert [(step.number, step.kind, step.turn) for step in steps] == [
        (0, "begin", 0),
        (1, "context", 1),
        (2, "done", 1),
    ]
    assert steps[0].saved_at <= steps[1].saved_at <= steps[2].saved_at
    assert await journal.steps("nobody") == ()
