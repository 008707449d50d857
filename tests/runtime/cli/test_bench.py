"""`bench` against real servers: ours, and one of others that tells less and fails."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from typer.testing import CliRunner

from agentkit_runtime import cli
from agentkit_runtime.benching.asking import ask
from agentkit_runtime.benching.report import report, spread, table
from agentkit_runtime.benching.workload import Workload
from tests.runtime.api.serving import serving_app
from tests.runtime.cli.conftest import Shop

SMALL = ("--conversations", "3", "--turns", "1", "--concurrency", "2", "--shared", "60")
LOAD = Workload(
    conversations=4,
    turns=2,
    concurrency=2,
    shared_words=30,
    prefixes=2,
    question_words=5,
    max_tokens=4,
    seed=7,
)


@pytest.fixture(scope="module")
def foreign() -> Iterator[str]:
    """A server that tells no cached tokens, wants no key, and breaks every third answer."""
    asked = itertools.count(1)

    async def models(request: Request) -> Response:
        assert "authorization" not in request.headers
        return JSONResponse({"data": [{"id": "theirs"}]})

    async def chat(request: Request) -> Response:
        broken = next(asked) % 3 == 0

        async def stream() -> AsyncIterator[bytes]:
            for text in ("a", "b"):
                chunk = {"choices": [{"delta": {"content": text}}]}
                yield f"data: {json.dumps(chunk)}\r\n\r\n".encode()
            if not broken:
                usage = {"prompt_tokens": 9, "completion_tokens": 2}
                yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()
                yield b"data: [DONE]\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    routes = [
        Route("/v1/models", models),
        Route("/v1/chat/completions", chat, methods=["POST"]),
    ]
    with serving_app(Starlette(routes=routes)) as (url, _):
        yield url


def test_conversations_that_share_a_prefix_are_hits_behind_the_first(shop: Shop) -> None:
    done = shop.run("bench", *SMALL, "--concurrency", "1", "--question", "1", "--json")

    assert done.code == 0, done.stderr
    (server,) = done.json["servers"]
    assert (server["model"], server["answers"], server["errors"]) == ("scripted", 3, {})
    assert server["ttft_miss"]["n"] == 1
    assert server["ttft_hit"]["n"] == 2
    assert server["hit_ratio"] == server["cached_tokens"] / server["prompt_tokens"] > 0.4
    assert server["tokens_per_s"] > 0
    assert server["itl"]["p50"] <= server["itl"]["p99"]


def test_the_same_seed_asks_what_is_cached(shop: Shop) -> None:
    ratios = [
        shop.run("bench", *SMALL, "--seed", seed, "--json").json["servers"][0]["hit_ratio"]
        for seed in ("1", "1", "2")
    ]

    assert ratios[1] > 0.95
    assert ratios[2] < ratios[1]


def test_servers_stand_side_by_side_and_failures_are_counted(foreign: str) -> None:
    done = CliRunner().invoke(
        cli.app, ["bench", foreign, f"{foreign}/v1", *SMALL], env={"AGENTKIT_RUNTIME_KEY": "x"}
    )
    lines = {line.split("  ")[0]: line.split()[-2:] for line in done.stdout.splitlines()}

    assert done.exit_code == 1
    assert lines["model"] == ["theirs", "theirs"]
    assert lines["errors"] == ["1", "1"]
    assert lines["error: the stream ended early"] == ["1", "1"]
    assert lines["answers"] == ["2", "2"]
    assert lines["hit ratio"] == ["-", "-"]
    assert lines["first token, n"] == ["2", "2"]


@pytest.mark.parametrize(
    ("key", "said"), [(None, "wants a key, or another one"), ("root", "status 403")]
)
def test_a_key_that_is_not_let_in_is_said(shop: Shop, key: str | None, said: str) -> None:
    done = shop.run("bench", *SMALL, key=key)

    assert done.code == 1
    assert said in done.stdout + done.stderr


def test_each_server_gets_its_own_key(shop: Shop, foreign: str, tmp_path: Path) -> None:
    (tmp_path / "ann").write_text(shop.keys["ann"], "utf-8")
    file = ("--key-file", str(tmp_path / "ann"))

    two = shop.run("bench", shop.url, *SMALL, *file, *file, "--json", key=None)
    three = shop.run("bench", foreign, *SMALL, *file * 3, key=None)
    unnamed = shop.run("bench", foreign, *SMALL)

    assert (two.code, len(two.json["servers"])) == (0, 2)
    assert (three.code, "3 key files for 2 servers" in three.stderr) == (2, True)
    assert "wants a key, or another one" in unnamed.stderr


def test_conversations_are_the_same_each_time_and_differ_by_their_seed() -> None:
    other = Workload(**{name: getattr(LOAD, name) for name in LOAD.__slots__} | {"seed": 8})

    assert LOAD.system(0) == LOAD.system(2) != LOAD.system(1)
    assert LOAD.question(0, 1) != LOAD.question(0, 0)
    assert other.system(0)[:8] != LOAD.system(0)[:8]
    assert len({LOAD.session(n) for n in range(4)} | {other.session(0)}) == 5


async def test_times_are_those_of_the_tokens() -> None:
    """Began at 1; a role at no time, tokens at 2, 3 and 4, the end at 5."""
    pieces = [{"role": "assistant"}, {"content": "a"}, {"reasoning_content": "b"}, {"content": "c"}]
    lines = [json.dumps({"choices": [{"delta": piece}]}) for piece in pieces]
    stream = "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]"))
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, text=stream))
    times = iter((1.0, 2.0, 3.0, 5.0, 8.0))

    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        answered = await ask(
            client, [], model="m", max_tokens=1, session="s", clock=lambda: next(times)
        )

    assert (answered.text, answered.ttft_s, answered.gaps_s) == ("ac", 1.0, (1.0, 2.0))
    assert (answered.seconds, answered.cached_tokens) == (7.0, None)


def test_percentiles_lie_between_the_closest_values() -> None:
    found = spread([4.0, 1.0, 3.0, 2.0, 5.0])

    assert found is not None
    assert (found.n, found.p50, found.p90) == (5, 3.0, pytest.approx(4.6))
    assert spread([]) is None


def test_nothing_answered_is_still_a_table() -> None:
    lines = table([report("http://x", "m", [], {"status 500": 2}, 1.0)])

    assert any(line.split() == ["errors", "2"] for line in lines)
