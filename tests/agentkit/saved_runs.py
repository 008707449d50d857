"""Hypothesis strategies for runs as data."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.plan import Prediction
from agentkit.caching.policy import Cost, InputSplit, Ttl
from agentkit.caching.report import RequestRecord
from agentkit.caching.verdict import Cause, Difference, Shortfall, Verdict
from agentkit.context import Context, Document, SystemPart, SystemText
from agentkit.errors import RestoredFailure
from agentkit.kept import handle_of
from agentkit.result import Failed, Ok, RunRecord, RunResult
from agentkit.saved import (
    Answered,
    Approve,
    Asked,
    Deny,
    Memory,
    PausedRun,
    SavedEnd,
    SavedRun,
    SavedTurn,
    WayBack,
)
from agentkit.toolset.caller import Accept, Question
from agentkit.usage import Timing, Usage

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text("abcxyz_é", min_size=1, max_size=5)
counts = st.integers(0, 2**40)
maybe_counts = st.none() | counts
seconds = st.floats(0, 1e9)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
blobs = st.binary(max_size=9)

images = st.builds(Image.of_bytes, blobs, st.just("image/png"))
files = st.builds(File.of_bytes, blobs, st.just("application/pdf"), name=names)
user_messages = st.lists(
    st.builds(Text, texts, st.sampled_from([None, "5m", "1h"])) | images | files, max_size=3
).map(lambda blocks: UserMessage(tuple(blocks)))
signatures = st.none() | texts
thoughts = st.builds(Thinking, texts, signatures, st.none() | names)
items = st.builds(VendorItem, source=names, data=texts)
usages = st.builds(Usage, **dict.fromkeys(Usage.__dataclass_fields__, maybe_counts))


def calls(ids: list[str]) -> st.SearchStrategy[tuple[ToolCall, ...]]:
    return st.tuples(
        *(st.builds(ToolCall, id=st.just(each), name=names, arguments=texts) for each in ids)
    )


def result_of(call: ToolCall) -> st.SearchStrategy[ToolResult]:
    return st.builds(
        ToolResult,
        call_id=st.just(call.id),
        name=st.just(call.name),
        content=texts,
        is_error=st.booleans(),
        attachments=st.lists(images | files, max_size=2).map(tuple),
    )


@st.composite
def assistant_messages(draw: st.DrawFn, min_calls: int = 0) -> AssistantMessage:
    ids = draw(st.lists(names, min_size=min_calls, max_size=3, unique=True))
    blocks: list[Any] = [*draw(calls(ids))]
    blocks += draw(st.lists(st.builds(Text, texts) | thoughts | items, max_size=3))
    return AssistantMessage(tuple(draw(st.permutations(blocks))))


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    context = Context(
        SystemText(SystemPart.RULES, draw(st.sampled_from(["Be exact.", "Ask ünder doubt."]))),
        SystemText(SystemPart.ROLE, draw(texts)),
        Document(uri="a.md", text=draw(texts)),
    )
    for _ in range(draw(st.integers(0, 3))):
        message = draw(assistant_messages())
        context = context.append(draw(user_messages), message)
        if message.calls:
            results = [draw(result_of(call)) for call in message.calls]
            context = context.append(ToolMessage(tuple(results)))
    return context


answers = (
    st.builds(Approve, st.none() | st.just('{"a":1}'))
    | st.builds(Deny, texts)
    | st.builds(Answered, texts, st.booleans())
    | st.builds(Accept, st.dictionaries(texts, texts | counts, max_size=2))
)
questions = st.builds(Question, server=names, text=texts, form=st.none() | texts, url=st.none())
asked = st.builds(Asked, question=questions, kept=texts, arguments=st.none() | texts)


@st.composite
def turns(draw: st.DrawFn) -> SavedTurn:
    message = draw(assistant_messages(min_calls=1))
    done = draw(st.lists(st.sampled_from(message.calls), unique=True))
    ids = st.frozensets(st.sampled_from([call.id for call in message.calls]))
    return SavedTurn(
        message=message,
        results={call.id: draw(result_of(call)) for call in done},
        started=draw(ids),
        waiting=draw(ids),
        answers=draw(st.dictionaries(names, answers, max_size=2)),
        asked=draw(st.dictionaries(names, asked, max_size=2)),
    )


ends = st.builds(
    SavedEnd,
    text=texts,
    finish=st.sampled_from(["stop", "length", "tool_calls"]),
    error=st.none() | texts,
)
memories = st.builds(
    Memory,
    length=st.none() | usages,
    epoch=counts,
    version=maybe_counts,
    seen=st.frozensets(names),
    active=st.none() | names,
    # A handle says which text it is: another text never comes under it.
    kept=st.lists(texts, max_size=2).map(lambda kept: {handle_of(text): text for text in kept}),
)
splits = st.builds(
    InputSplit,
    read=counts,
    writes=st.lists(st.tuples(st.sampled_from(Ttl), counts), max_size=2).map(tuple),
    uncached=counts,
)
costs = st.builds(Cost, **dict.fromkeys(Cost.__dataclass_fields__, decimals))
verdicts = st.builds(
    Verdict,
    at=st.datetimes(timezones=st.just(UTC)),
    model=names,
    predicted=st.builds(
        Prediction, split=splits, hit=counts, cost=st.none() | costs, uncached=st.none() | decimals
    ),
    actual=st.none() | splits,
    cost=st.none() | costs,
    uncached_cost=st.none() | decimals,
    planned_cost=st.none() | decimals,
    price_source=st.none() | texts,
    shortfall=st.none()
    | st.builds(
        Shortfall,
        cause=st.sampled_from(Cause),
        detail=texts,
        lost_tokens=counts,
        difference=st.none()
        | st.builds(
            Difference,
            section=names,
            block=counts,
            segment=names,
            byte=counts,
            before=texts,
            after=texts,
            source=st.none() | texts,
        ),
        vendor=st.none() | texts,
        lost_usd=st.none() | decimals,
    ),
)
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
requests = st.builds(
    RequestRecord,
    path=paths,
    model=names,
    usage=usages,
    timing=st.builds(Timing, ttft_s=st.none() | seconds, total_s=st.none() | seconds),
    verdict=st.none() | verdicts,
    run_id=names,
    session=names,
    tenant=texts,
    epoch=counts,
)
some_requests = st.lists(requests, max_size=2).map(tuple)
histories = st.lists(user_messages | assistant_messages(), max_size=2).map(tuple)
runs = st.builds(
    SavedRun,
    run_id=names,
    parent=st.none() | names,
    call_id=st.none() | names,
    number=counts,
    path=paths,
    agent=names,
    session=names,
    tenant=texts,
    user=texts,
    prompt=texts,
    status=st.sampled_from(["running", "paused", "done", "failed", "cancelled"]),
    context=contexts(),
    turn=counts,
    open_turn=st.none() | turns(),
    n_repairs=counts,
    memory=memories,
    n_old_messages=counts,
    said_before=histories,
    way_back=st.none()
    | st.builds(WayBack, context=contexts(), n_old_messages=counts, n_said=counts),
    requests=some_requests,
    end=st.none() | ends,
    began_at=seconds,
    total_s=seconds,
)
paused_runs = st.builds(PausedRun, runs=st.lists(runs, min_size=1, max_size=3).map(tuple))


def results(depth: int = 1) -> st.SearchStrategy[RunResult[Any]]:
    return st.builds(
        RunResult,
        **_record(depth),
        output=texts | st.lists(counts, max_size=2),
        text=texts,
        finish=st.sampled_from(["stop", "length"]),
    )


def records(depth: int = 1) -> st.SearchStrategy[RunRecord]:
    return st.builds(RunRecord, **_record(depth))


def _record(depth: int) -> dict[str, st.SearchStrategy[Any]]:
    outcomes: st.SearchStrategy[Any] = st.nothing()
    if depth:
        failures = st.builds(RestoredFailure, texts)
        outcomes = st.builds(Ok, path=paths, task=texts, result=results(depth - 1)) | st.builds(
            Failed, path=paths, task=texts, error=failures, record=records(depth - 1)
        )
    return {
        "run_id": names,
        "path": paths,
        "context": contexts(),
        "messages": histories,
        "requests": some_requests,
        "children": st.lists(outcomes, max_size=2 if depth else 0).map(tuple),
        "total_s": seconds,
    }
