"""What holds for every simulated cache, whatever is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.simulate import (
    Block,
    CacheRequest,
    Clock,
    Identity,
    InFlight,
    ManualClock,
    Mark,
    Message,
    Role,
    Served,
    SimulatedAnthropic,
    SimulatedCache,
    SimulatedDeepSeek,
    SimulatedGemini,
    SimulatedOpenAi,
    Tenant,
    split_at_marks,
)

Make = Callable[[Clock], SimulatedCache]

CACHES: dict[str, tuple[Make, str, bool]] = {
    # how to make it, a model, whether it takes marks
    "anthropic": (lambda clock: SimulatedAnthropic(clock=clock), "claude-opus-5", True),
    "openai": (lambda clock: SimulatedOpenAi(clock=clock), "gpt-6-sol", True),
    "openai-before": (
        lambda clock: SimulatedOpenAi(clock=clock, spills=False, hidden_tokens=77),
        "gpt-5.5",
        False,
    ),
    "deepseek": (
        lambda clock: SimulatedDeepSeek(clock=clock, build_s=0, interval_tokens=1500),
        "deepseek-flash",
        False,
    ),
    "gemini": (lambda clock: SimulatedGemini(clock=clock), "gemini-3.8-flash", False),
}

ALL = pytest.mark.parametrize("name", list(CACHES))

SIZES = {"a": 600, "b": 2300, "c": 5100}  # equal blocks have equal lengths

Plain = tuple[tuple[str, ...], ...]
"""Names of the blocks of each message; users and assistants take turns."""

PLAIN = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map(tuple), min_size=1, max_size=4
).map(tuple)


@st.composite
def histories(
    draw: st.DrawFn, *, marks: bool, min_size: int = 1, max_size: int = 5
) -> list[tuple[Message, ...]]:
    """Conversations that go on from one another, at any message, with any marks."""
    plain: list[Plain] = []
    found = []
    for _ in range(draw(st.integers(min_size, max_size))):
        earlier = draw(st.sampled_from(plain)) if plain and draw(st.integers(0, 3)) else ()
        kept = earlier[: draw(st.integers(0, len(earlier)))]
        plain.append((*kept, *draw(PLAIN)))
        found.append(_messages(plain[-1], draw(st.sets(st.integers(0, 6), max_size=3)), marks))
    return found


def _messages(plain: Plain, marked: set[int], marks: bool) -> tuple[Message, ...]:
    messages, place = [], 0
    for turn, names in enumerate(plain):
        role = Role.ASSISTANT if turn % 2 else Role.USER
        blocks = []
        for name in names:
            mark = Mark() if marks and role is Role.USER and place in marked else None
            blocks.append(Block(digest=name.encode(), n_tokens=SIZES[name], mark=mark))
            place += 1
        messages.append(Message(role, tuple(blocks)))
    return tuple(messages)


def _request(name: str, messages: tuple[Message, ...], tenant: str = "one") -> CacheRequest:
    return CacheRequest(
        identity=Identity(model=CACHES[name][1]),
        messages=messages,
        tenant=Tenant(organization=tenant),
    )


def _serve(cache: SimulatedCache, request: CacheRequest) -> Served:
    served = cache.request(request)
    assert isinstance(served, Served), served
    return served


def _total(messages: tuple[Message, ...]) -> int:
    return sum(block.n_tokens for message in messages for block in message.blocks)


@ALL
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_token_is_read_or_written_or_neither(name: str, data: st.DataObject) -> None:
    """Also across expiry and requests in flight at the same time."""
    make, _, marks = CACHES[name]
    clock = ManualClock()
    cache = make(clock)
    flights: list[InFlight] = []
    for messages in data.draw(histories(marks=marks)):
        flight = cache.begin(_request(name, messages))
        assert isinstance(flight, InFlight)
        served = flight.served
        assert served.split.total == _total(messages)
        assert min(served.read, served.uncached, *served.write_by_ttl.values(), 0) == 0
        flights.append(flight)
        clock.advance(data.draw(st.sampled_from([0, 1, 250, 400, 4000])))
        if data.draw(st.booleans()):
            flights.pop(data.draw(st.integers(0, len(flights) - 1))).end()


@ALL
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_longer_request_never_reads_less_than_the_one_it_extends(
    name: str, data: st.DataObject
) -> None:
    make, _, marks = CACHES[name]
    *history, messages = data.draw(histories(marks=marks))
    tail = Message(Role.USER, (Block(digest=b"tail", n_tokens=1500, mark=None),))
    marked = replace(tail, blocks=(replace(tail.blocks[0], mark=Mark()),))
    reads = []
    for extension in ((), (tail,), (marked,) if marks else (tail,)):
        cache = make(ManualClock())
        for earlier in history:
            _serve(cache, _request(name, earlier))
        reads.append(_serve(cache, _request(name, messages + extension)).read)
    assert reads[0] == min(reads)


@ALL
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_an_identical_request_never_reads_less_the_second_time(
    name: str, data: st.DataObject
) -> None:
    make, _, marks = CACHES[name]
    cache = make(ManualClock())
    (messages,) = data.draw(histories(marks=marks, max_size=1))
    first, second = (_serve(cache, _request(name, messages)) for _ in range(2))
    assert second.read >= first.read + first.split.written


@ALL
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_tenants_never_share(name: str, data: st.DataObject) -> None:
    """What one tenant is answered does not depend on what the other has asked."""
    make, _, marks = CACHES[name]
    shared, alone = make(ManualClock()), make(ManualClock())
    history = data.draw(histories(marks=marks))
    for theirs in history:
        _serve(shared, _request(name, theirs, "two"))
        ours = data.draw(st.sampled_from(history))
        assert _serve(shared, _request(name, ours)) == _serve(alone, _request(name, ours))


@ALL
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_equal_histories_give_equal_answers(name: str, data: st.DataObject) -> None:
    make, _, marks = CACHES[name]
    history = data.draw(histories(marks=marks))
    answers = []
    for _ in range(2):
        cache = make(ManualClock())
        answers.append([_serve(cache, _request(name, messages)) for messages in history])
    assert answers[0] == answers[1]


@ALL
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_nothing_is_read_that_was_not_sent_before(name: str, data: st.DataObject) -> None:
    """A read is never longer than the longest prefix that is shared with an earlier request."""
    make, _, marks = CACHES[name]
    cache = make(ManualClock())
    seen: list[list[tuple[bytes, int]]] = []
    for messages in data.draw(histories(marks=marks)):
        blocks = [(b.digest, b.n_tokens) for message in messages for b in message.blocks]
        longest = max((_common(blocks, earlier) for earlier in seen), default=0)
        assert _serve(cache, _request(name, messages)).read <= longest
        seen.append(blocks)


def _common(first: list[tuple[bytes, int]], second: list[tuple[bytes, int]]) -> int:
    total = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            break
        total += mine[1]
    return total


@settings(max_examples=300, deadline=None)
@given(
    long=st.lists(st.integers(0, 50), max_size=4),
    short=st.lists(st.integers(0, 50), max_size=4),
    hit=st.integers(0, 60),
    rest=st.integers(0, 20),
)
def test_the_billing_formula_is_a_b_c(
    long: list[int], short: list[int], hit: int, rest: int
) -> None:
    """A the highest hit, B the highest 1h mark after A, C the last mark; 1h marks come first."""
    base = max(long, default=0)
    short = [base + place for place in short]
    total = max([hit, *long, *short]) + rest
    marks = [(place, Ttl.ONE_HOUR) for place in long]
    marks += [(place, Ttl.FIVE_MINUTES) for place in short]
    a = hit
    b = max([place for place in long if place > a], default=a)
    c = max([place for place in long + short if place > a], default=b)
    split = split_at_marks(total, hit, marks)
    assert split.read == a
    assert split.wrote(Ttl.ONE_HOUR) == b - a
    assert split.wrote(Ttl.FIVE_MINUTES) == c - b
    assert split.uncached == total - c


@settings(max_examples=100, deadline=None)
@given(
    n_before=st.integers(0, 45), gap=st.integers(0, 45), kinds=st.lists(st.booleans(), max_size=3)
)
def test_the_lookback_finds_exactly_what_lies_within_20_positions(
    n_before: int, gap: int, kinds: list[bool]
) -> None:
    """Against a direct count: `kinds` inserts runs of tool results, which are one position each."""
    cache = SimulatedAnthropic(clock=ManualClock())
    front = [Block(digest=f"f{i}".encode(), n_tokens=600) for i in range(n_before + 1)]
    marked = [*front[:-1], replace(front[-1], mark=Mark())]
    _serve(cache, _anthropic(marked))
    middle = [Block(digest=f"m{i}".encode(), n_tokens=1) for i in range(gap)]
    runs = [
        block
        for index, is_run in enumerate(kinds)
        if is_run
        for block in (
            *(
                Block(kind=BlockKind.TOOL_RESULT, digest=f"r{index}.{i}".encode(), n_tokens=1)
                for i in range(7)
            ),
            Block(digest=f"t{index}".encode(), n_tokens=1),
        )
    ]
    last = Block(digest=b"last", n_tokens=1, mark=Mark())
    positions_back = gap + 2 * sum(kinds) + 1
    served = _serve(cache, _anthropic([*front, *middle, *runs, last]))
    assert (served.read > 0) == (positions_back < 20)


def _anthropic(blocks: list[Block]) -> CacheRequest:
    return CacheRequest(
        identity=Identity(model="claude-opus-5"), messages=(Message(Role.USER, tuple(blocks)),)
    )
