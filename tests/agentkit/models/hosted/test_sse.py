"""Server-sent events: whatever the pieces in which they come, they are the same."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterable

import pytest
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st

from agentkit.models.hosted.sse import event_json, sse_events

STREAM = (
    b": a comment\r\n\r\n"
    b'event: message_start\r\ndata: {"text":"\xc3\xa4"}\r\n\r\n'
    b"event: ping\n\n"  # no data: no event
    b"data: one\ndata:two\nid: 7\nretry: 3\n\n"
    b"event: cr\rdata: three\r\r"
    b"data: never complete"
)
EVENTS = [("message_start", '{"text":"ä"}'), ("", "one\ntwo"), ("cr", "three")]


async def found(chunks: Iterable[bytes]) -> list[tuple[str, str]]:
    """The events of a response that comes in these pieces."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [event async for event in sse_events(Response(200, content=body()))]


@given(cuts=st.sets(st.integers(1, len(STREAM) - 1)))
async def test_events_do_not_depend_on_where_the_stream_is_cut(cuts: set[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(ends)]
    assert await found(chunks) == EVENTS


async def test_what_is_no_utf8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        await found([b"data: \xff\n\n"])


@given(st.text('[]{}",: \n1tn\\u', max_size=12))
def test_data_is_read_as_json_loads_reads_it(data: str) -> None:
    try:
        expected = json.loads(data)
    except ValueError:
        with pytest.raises(ValueError):
            event_json(data)
    else:
        assert event_json(data) == expected


@pytest.mark.parametrize("data", [' {"a": 1}', '{"a": 1}\n', "[1, 2]", '"\\ud800"'])
def test_data_may_have_space_around_it(data: str) -> None:
    assert event_json(data) == json.loads(data)
