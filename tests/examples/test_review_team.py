"""The demo's checks do not trust the model; its figures are those of the cache report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentkit import ModelError, ModelRequest
from agentkit.testing import Call, ScriptedModel
from examples import review_team
from examples.review_team import PAPERS, check, figures, place_in, report_lines, review

LEASE = PAPERS / "lease.md"
DEADLINE = "The tenant must hand the insurance certificate to the town clerk by 31 January 2027."


def test_a_place_with_a_deadline_is_quoted_word_for_word() -> None:
    entry = check(LEASE, "lease.md:17")
    assert (entry.line, entry.quote, entry.note) == (17, DEADLINE, "due 31 January 2027")


@pytest.mark.parametrize(
    "place", ["lease.md:1", "lease.md:0", "lease.md:999", "loan.md:17", "loan.md:22", "none", ""]
)
def test_any_other_place_is_reported_as_not_found(place: str) -> None:
    entry = check(LEASE, place)
    assert entry.quote is None
    assert entry.line is None
    assert "not found" in entry.note


def test_each_paper_but_one_has_exactly_one_deadline() -> None:
    """What the report has to find, counted without any model."""
    found = {
        paper.name: [
            number
            for number, line in enumerate(paper.read_text("utf-8").splitlines(), 1)
            if review_team.DEADLINE.search(line)
        ]
        for paper in PAPERS.glob("*.md")
    }
    assert found == {
        "fire.md": [16],
        "lease.md": [17],
        "loan.md": [22],
        "survey.md": [16],
        "volunteers.md": [],
    }


def test_an_answer_names_a_known_paper_or_none() -> None:
    place = place_in(["lease.md", "a+b.md"])
    assert place(path="a+b.md:3").path == "a+b.md:3"
    assert place(path="none").path == "none"
    for wrong in ("loan.md:3", "lease.md", "aab.md:3", "lease.md:123456", "lease.md:3 and more"):
        with pytest.raises(ValidationError):
            place(path=wrong)


async def test_the_team_reads_through_the_server_and_wrong_answers_are_marked(
    tmp_path: Path,
) -> None:
    for name in ("lease.md", "loan.md"):
        shutil.copy(PAPERS / name, tmp_path / name)

    def script(request: ModelRequest) -> str | Call:
        turn = sum(1 for message in request.context.messages if message.kind == "assistant")
        if request.agent == "editor":
            return json.dumps({"path": "lease.md:17"}) if turn else Call("send_readers", {})
        name = "lease.md" if "lease.md" in str(request.context.messages[0]) else "loan.md"
        steps = (
            Call("files__read_lines", {"path": name}),
            Call("files__search_text", {"path": name, "query": "2027"}),
        )
        wrong = {"lease.md": "lease.md:17", "loan.md": "loan.md:3"}[name]
        return steps[turn] if turn < 2 else json.dumps({"path": wrong})

    done = await review(tmp_path, ScriptedModel(script))
    assert done.complete
    assert report_lines(done.entries) == [
        f'lease.md:17: "{DEADLINE}" (due 31 January 2027)',
        "loan.md: not found (the reader said 'loan.md:3')",
    ]
    assert done.start == "The editor would begin with lease.md:17."
    numbers = figures(done.record, done.entries, tmp_path)
    assert numbers["quotes_checked"] == numbers["quotes_right"] == 1
    assert numbers["papers"] == 2
    assert numbers["prompt_tokens"] == sum(
        request.usage.input_tokens or 0 for request in done.record.requests
    )


async def test_papers_that_cannot_be_read_and_readers_that_fail_lose_no_other_paper(
    tmp_path: Path,
) -> None:
    """Regressions: bytes that are not UTF-8, a folder named like a paper, a failing editor."""
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "latin.md").write_bytes(b"Caf\xe9\x0cbar\nPay the fee by 2 May 2027.\r\n")
    (tmp_path / "GOOD.MD").write_text('Say "hi" by 3 May 2027.')

    def script(request: ModelRequest) -> str | Call:
        turn = sum(1 for message in request.context.messages if message.kind == "assistant")
        if request.agent == "editor":
            return "x" if turn else Call("send_readers", {})
        if "GOOD" in str(request.context.messages[0]):
            raise ModelError("no model today", retryable=False)
        steps = (
            Call("files__read_lines", {"path": "latin.md"}),
            Call("files__search_text", {"path": "latin.md", "query": "2027"}),
        )
        return steps[turn] if turn < 2 else json.dumps({"path": "latin.md:2"})

    done = await review(tmp_path, ScriptedModel(script))
    assert done.complete
    assert report_lines(done.entries) == [
        "GOOD.MD: the reader failed: no model today",
        'latin.md:2: "Pay the fee by 2 May 2027." (due 2 May 2027)',
    ]
    assert "names no place to begin with" in done.start
