"""The wire files, through the official client."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import respx

from tests.agentkit.models.hosted.openai_chat.talk import (
    COUNTED,
    SAID,
    URL,
    adapter,
    collect,
    prompt_bytes,
    sse,
)
from tests.golden.wire.openai_chat.make import FOLDER, NAMES, SERVERS, requests

MARK = re.compile(rb',"(prompt_cache_breakpoint|cache_control)":\{[^{}]*\}')
VOLATILE = re.compile(rb',\{"role":"user","content":(\[\{"type":"text","text":)?"It is ')


@pytest.mark.parametrize("server", SERVERS)
async def test_the_official_client_sends_the_golden_bytes(
    httpx2_mock: respx.Router, server: str
) -> None:
    httpx2_mock.post(URL).mock(return_value=sse(*SAID, COUNTED))
    api = adapter(SERVERS[server][0])

    for name, made, planned in requests(server):
        await collect(api, api.body(api.layout(made), planned, made))

        sent = httpx2_mock.calls.last.request.content
        assert sent == (FOLDER / server / f"{name}.json").read_bytes(), name


@pytest.mark.parametrize("server", SERVERS)
def test_each_golden_request_extends_the_one_before_in_cache_order(server: str) -> None:
    data = [(FOLDER / server / f"{name}.json").read_bytes() for name in NAMES]
    prompts = [stable(each) for each in data]

    for before, after in itertools.pairwise(prompts):
        assert after.startswith(before)
        assert len(after) > len(before)


@pytest.mark.parametrize("server", SERVERS)
def test_every_golden_request_is_json_that_differs_from_the_others_of_its_run(server: str) -> None:
    parsed = [json.loads((FOLDER / server / f"{name}.json").read_bytes()) for name in NAMES]

    assert [len(each["messages"]) for each in parsed] == [5, 8, 11, 14]
    assert len({json.dumps(each["tools"]) for each in parsed}) == 1
    assert len({each["model"] for each in parsed}) == 1


def stable(data: bytes) -> bytes:
    """The prompt, which comes first, without marks and without the volatile text."""
    prompt = MARK.sub(b"", prompt_bytes(data))
    volatile = VOLATILE.search(prompt)
    return prompt[: volatile.start()] if volatile else prompt
