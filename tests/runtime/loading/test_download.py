"""One file over HTTP: resume, servers that misbehave, giving up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from agentkit_runtime.loading.download import DownloadFailed, download
from tests.runtime.loading.fileserver import FileServer, Mood, serving

CONTENT = bytes(range(256)) * 4_000


class Fetch:
    """Downloads without waiting, and remembers the waits and the progress."""

    def __init__(self, folder: Path) -> None:
        self.part = folder / "model.part"
        self.waits: list[float] = []
        self.progress: list[int] = []

    def __call__(self, server: FileServer, url: str | None = None) -> bytes:
        download(
            url or server.url,
            self.part,
            total_bytes=len(server.content),
            advance=self.progress.append,
            sleep=self.waits.append,
        )
        return self.part.read_bytes()


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path)


def test_a_file_is_fetched_whole_through_redirects(fetch: Fetch) -> None:
    with serving(CONTENT) as server:
        assert fetch(server) == CONTENT
    assert server.ranges == [None]
    assert fetch.progress[0] == 0
    assert fetch.progress[-1] == len(CONTENT)
    assert fetch.progress == sorted(fetch.progress)


def test_a_broken_download_goes_on_where_it_stopped(fetch: Fetch) -> None:
    fetch.part.write_bytes(CONTENT[:1000])
    with serving(CONTENT) as server:
        assert fetch(server) == CONTENT
    assert server.ranges == ["bytes=1000-"]
    assert fetch.progress[0] == 1000


def test_a_cut_connection_is_resumed_after_a_wait(fetch: Fetch) -> None:
    with serving(CONTENT, "cut", "cut", "well") as server:
        assert fetch(server) == CONTENT
    assert len(server.ranges) == 3
    starts = [int((asked or "bytes=0-")[6:-1]) for asked in server.ranges]
    assert starts == sorted(starts)
    assert starts[2] > starts[1] > 0
    assert len(fetch.waits) == 2


def test_a_server_that_ignores_ranges_sends_everything_again(fetch: Fetch) -> None:
    fetch.part.write_bytes(b"wrong" * 100)
    with serving(CONTENT, "no ranges") as server:
        assert fetch(server) == CONTENT


def test_a_wrong_range_starts_again_from_zero(fetch: Fetch) -> None:
    fetch.part.write_bytes(CONTENT[:1000])
    with serving(CONTENT, "wrong range", "well") as server:
        assert fetch(server) == CONTENT
    assert server.ranges == ["bytes=1000-", None]


def test_a_file_that_is_whole_already_is_not_asked_for(fetch: Fetch) -> None:
    fetch.part.write_bytes(CONTENT)
    with serving(CONTENT) as server:
        fetch(server)
    assert server.ranges == []
    assert fetch.progress == [len(CONTENT)]


def test_a_part_that_is_too_long_is_thrown_away(fetch: Fetch) -> None:
    fetch.part.write_bytes(CONTENT + b"x")
    with serving(CONTENT) as server:
        assert fetch(server) == CONTENT


@pytest.mark.parametrize("mood", ["busy", "shorter"])
def test_passing_trouble_is_tried_again(fetch: Fetch, mood: Mood) -> None:
    with serving(CONTENT, mood, mood, "well") as server:
        assert fetch(server) == CONTENT
    assert len(fetch.waits) == 2


def test_trouble_that_stays_is_given_up_with_the_reason(fetch: Fetch) -> None:
    with serving(CONTENT, "busy") as server, pytest.raises(DownloadFailed, match="503"):
        fetch(server)
    assert len(fetch.waits) == 5
    assert fetch.waits[-1] > fetch.waits[0]


def test_a_file_that_is_gone_is_not_asked_for_twice(fetch: Fetch) -> None:
    with serving(CONTENT, "gone") as server, pytest.raises(DownloadFailed, match="404"):
        fetch(server)
    assert len(server.ranges) == 1


def test_a_file_that_is_too_long_is_refused_before_it_fills_the_disk(fetch: Fetch) -> None:
    with serving(CONTENT, "longer") as server, pytest.raises(DownloadFailed, match="larger"):
        fetch(server)


def test_a_part_beyond_the_servers_file_starts_again(fetch: Fetch) -> None:
    """The server has a shorter file than announced: 416, then too few bytes, then given up."""
    with serving(CONTENT[:10]) as server:
        fetch.part.write_bytes(CONTENT[:20])
        with pytest.raises(DownloadFailed, match="10 of 1000 bytes"):
            download(
                server.url,
                fetch.part,
                total_bytes=1000,
                advance=fetch.progress.append,
                sleep=fetch.waits.append,
            )
    assert server.ranges[0] == "bytes=20-"
    assert server.ranges[1] is None


def test_what_was_received_stays_for_the_next_time(fetch: Fetch) -> None:
    with serving(CONTENT, "cut") as server, pytest.raises(DownloadFailed):
        fetch(server)
    present = fetch.part.read_bytes()
    assert 0 < len(present) < len(CONTENT)
    assert CONTENT.startswith(present)


def test_nobody_listening_is_a_failure_and_no_hang(fetch: Fetch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with serving(CONTENT) as server, pytest.raises(DownloadFailed, match="Connect"):
            fetch(server, f"http://127.0.0.1:{port}/x")
    assert len(fetch.waits) == 5
