"""Lines of an MCP stream, and lines that are no messages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset.mcp.links.wire import Broken, Junk, LineSplitter, Message, Overlong, read_line


@given(st.binary(max_size=200), st.lists(st.integers(1, 20), max_size=30))
def test_lines_do_not_depend_on_where_the_stream_is_cut(data, sizes):
    whole = list(LineSplitter(1000).feed(data))
    splitter, lines, rest = LineSplitter(1000), [], data
    for size in sizes:
        lines += splitter.feed(rest[:size])
        rest = rest[size:]
    lines += splitter.feed(rest)
    assert lines == whole
    assert whole == [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]]


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 20))
def test_overlong_lines_are_reported_and_do_not_harm_their_neighbours(lengths, chunk):
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    splitter, lines = LineSplitter(20), []
    for start in range(0, len(data), chunk):
        lines += splitter.feed(data[start : start + chunk])
    assert [
        line.size_bytes if isinstance(line, Overlong) else len(line) for line in lines
    ] == lengths
    assert [isinstance(line, Overlong) for line in lines] == [length > 20 for length in lengths]


def test_a_huge_line_is_split_in_linear_time_and_bounded_memory():
    splitter = LineSplitter(10**9)
    started = time.process_time()
    for _ in range(2000):
        assert not list(splitter.feed(b"x" * 10_000))
    (line,) = splitter.feed(b"\n")
    assert len(line) == 20_000_000
    assert time.process_time() - started < 2
    small = LineSplitter(1000)
    for _ in range(2000):
        assert not list(small.feed(b"x" * 10_000))
    (line,) = small.feed(b"\n")
    assert line.size_bytes == 20_000_000
    assert len(line.head) + len(line.tail) < 10_000


def test_messages_are_read_leniently():
    assert read_line(b'{"id": 1, "x": "caf\xe9 \\ud83d"}', frozenset()) == Message(
        {"id": 1, "x": "caf\ufffd \ud83d"}
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"content":[', 7),
        (b'{"result":{"id":3,"text":"cut', None),
        (b'{"jsonrpc":"2.0","id": "abc", "result": {"id": 3', "abc"),
        (b'{"result": {"id": 3, "broken": }, "id": 7}', 7),
        (b'{"id": 99, "result": ', None),
        (b"plain words", None),
        (b"[1, 2]", None),
        (b"", None),
    ],
)
def test_a_broken_line_belongs_to_the_pending_request_that_it_names(line, expected):
    result = read_line(line, {7, "abc"})
    if expected is None:
        assert isinstance(result, Junk)
    else:
        assert isinstance(result, Broken)
        assert result.request_id == expected


def test_an_overlong_answer_fails_the_request_it_names():
    (line,) = LineSplitter(100).feed(
        b'{"jsonrpc":"2.0","id":7,"result":"' + b"x" * 50_000 + b'"}\n'
    )
    broken = read_line(line, {7})
    assert isinstance(broken, Broken)
    assert (broken.request_id, "50036 bytes" in broken.problem) == (7, True)
    (tail,) = LineSplitter(100).feed(b'{"result":"' + b"x" * 50_000 + b'","id":7}\n')
    assert isinstance(read_line(tail, {7}), Broken)


@pytest.mark.parametrize(
    "start",
    [
        b'{"jsonrpc":"2.0","result":{"rows":[{"id":7}],"text":"',
        b'{"jsonrpc":"2.0","result":{"id":7,"text":"',
        b'{"text":"\\"id\\":7,',
        b'{"method":"ping","id":7,"params":"',
        b'[{"id":7,"result":"',
        b'{"text":"id","x":7,"result":"',
    ],
)
@pytest.mark.parametrize("end", [b'"}}', b'","id":7}}', b'"},"id":8}', b'","rows":[{"id":7}]}}'])
def test_ids_inside_an_overlong_answer_are_data(start, end):
    (line,) = LineSplitter(100).feed(start + b"x" * 50_000 + end + b"\n")
    assert isinstance(read_line(line, {7}), Junk)


@pytest.mark.parametrize("end", [b'},"id":7}', b'}, "id" : 7 , "jsonrpc": "2.0" }\r'])
def test_an_overlong_answer_may_name_its_request_after_the_data(end):
    rows = b'{"result":{"rows":[{"id":8},{"id":9}],"text":"' + b"x" * 50_000 + b'"'
    (line,) = LineSplitter(100).feed(rows + end + b"\n")
    broken = read_line(line, {7, 8, 9})
    assert isinstance(broken, Broken)
    assert broken.request_id == 7


def test_endless_nesting_is_broken_and_not_a_crash():
    assert isinstance(read_line(b'{"id":7,"x":' + b"[" * 200_000, {7}), Broken)
