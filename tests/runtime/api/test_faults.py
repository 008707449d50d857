"""What clients and devices do to a server: good requests finish, the others get a clear error."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import torch

from agentkit_runtime.api import create_app
from agentkit_runtime.governing.gate import PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.serving import Served, serving_app
from tests.runtime.service.scripted import (
    BOUND_S,
    NOT_FINITE,
    NextToken,
    Pace,
    Script,
    scripted_model,
    wait_until,
)


class Faulty:
    """A model that fails where a prompt says so."""

    def __init__(self, tokenizer: Tokenizer, script: NextToken) -> None:
        self._tokenizer = tokenizer
        self._script = script
        self._letter = tokenizer.encode("a")[0]
        self.n_memory_errors = 0

    def __call__(self, context: list[int]) -> int:
        text = b"".join(map(self._tokenizer.token_bytes, context)).decode(errors="replace")
        if "spoil" in text:
            return NOT_FINITE
        if "anything" in text:
            return self._letter
        if "breaks" in text:
            raise ValueError("an operator that cannot take this")
        if self.n_memory_errors and "hello 3" in text:
            self.n_memory_errors -= 1
            raise torch.OutOfMemoryError("no 3 GiB left")
        return self._script(context)


@pytest.fixture(scope="module")
def faulty(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> Iterator[tuple[Served, Faulty]]:
    script = Script(smollm2_text[0], {**ANSWERS, "spoil": "x", "breaks": "x"})
    model = Faulty(smollm2_text[0], script)
    pace = Pace(model)
    with scripted_model(*smollm2_text, pace) as loaded:
        service = ChatService(loaded)
        gate = PressureGate(service, Lifecycle("ready"), clock=lambda: 0.0)
        with serving_app(create_app(service, gate=gate)) as (url, server):
            yield Served(url=url, server=server, service=service, pace=pace), model


async def post(client: httpx2.AsyncClient, text: str, **fields: object) -> httpx2.Response:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], **fields}
    return await client.post("/v1/chat/completions", json=body)


async def together(served: Served, *texts: str) -> list[httpx2.Response]:
    """Ask all at once, so that they are computed in the same steps."""
    async with httpx2.AsyncClient(base_url=served.url, timeout=BOUND_S) as client:
        # The first one's step stands still until the others' commands wait for it to end.
        served.pace.hold()
        first = asyncio.create_task(post(client, "hello 0"))
        await asyncio.to_thread(wait_until, served.pace.waiting.is_set)
        tasks = [first, *(asyncio.create_task(post(client, text)) for text in texts)]
        commands = served.service._loaded.engine._commands
        await asyncio.to_thread(wait_until, lambda: len(commands) >= len(texts))
        served.pace.go()
        return await asyncio.gather(*tasks)


def content(answer: httpx2.Response) -> object:
    return answer.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("spoil", "no finite logit for this request"),
        ("breaks", "the step failed: ValueError: an operator that cannot take this"),
    ],
)
async def test_a_poisoned_request_among_good_ones_fails_alone(
    faulty: tuple[Served, Faulty], bad: str, message: str
) -> None:
    served, _ = faulty
    answers = await together(served, "hello 1", bad, "hello 2", "sunny")

    failed = answers[2]
    assert failed.status_code == 500
    assert message in failed.json()["error"]["message"]
    good = [answer for answer in answers if answer is not failed]
    assert [answer.status_code for answer in good] == [200] * 4
    assert {content(answer) for answer in good} == {ANSWERS["hello"], ANSWERS["sunny"]}
    assert served.idle


async def test_a_step_that_runs_out_of_memory_costs_nobody_an_answer(
    faulty: tuple[Served, Faulty],
) -> None:
    served, model = faulty
    before = served.service.stats().split_steps
    model.n_memory_errors = 1
    answers = await together(served, "hello 3", "hello 4", "sunny 5")

    assert [answer.status_code for answer in answers] == [200] * 4
    assert served.service.stats().split_steps > before


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("catastrophic", {"type": "string", "pattern": "^(a+)+$"}),
    ("alternatives", {"type": "string", "pattern": "(a|a)*b" * 200}),
    ("repeats", {"type": "string", "pattern": "(((a{1,1000}){1,1000}){1,1000})"}),
    ("long", {"type": "string", "pattern": "a" * 100_000}),
    ("lookahead", {"type": "string", "pattern": "(?=a)(?!b)a"}),
    ("broken", {"type": "string", "pattern": "(["}),
    ("endless", {"$ref": "#"}),
    ("mutual", {"anyOf": [{"$ref": "#/anyOf/1"}, {"$ref": "#/anyOf/0"}]}),
    ("elsewhere", {"$ref": "file:///etc/passwd"}),
    ("remote", {"$ref": "http://169.254.169.254/latest/meta-data"}),
    ("huge enum", {"enum": [f"value {n}" for n in range(50_000)]}),
    ("wide", {"properties": {f"p{n}": {"type": "string"} for n in range(60_000)}}),
    ("numbers", {"type": "integer", "minimum": -(10**400), "maximum": 10**400}),
    ("items", {"type": "array", "items": {"type": "array", "minItems": 10**9}, "minItems": 10**9}),
    ("not a schema", {"type": ["no", 7, None], "properties": 3}),
    ("combinations", {"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}] * 300}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schema"), HOSTILE, ids=[name for name, _ in HOSTILE])
async def test_hostile_schemas_are_refused_or_served_while_others_go_on(
    faulty: tuple[Served, Faulty], name: str, schema: dict[str, Any]
) -> None:
    served, _ = faulty
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with httpx2.AsyncClient(base_url=served.url, timeout=BOUND_S) as client:
        hostile = asyncio.create_task(post(client, "anything", response_format=form, max_tokens=4))
        good = await post(client, "sunny")
        answer = await hostile

    assert content(good) == ANSWERS["sunny"]
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 400:
        error = answer.json()["error"]
        assert error["param"].startswith("response_format"), error
        assert len(error["message"]) < 1000
    assert served.idle


async def test_ten_megabytes_of_prompt_are_refused_with_their_size(served: Served) -> None:
    async with httpx2.AsyncClient(base_url=served.url, timeout=BOUND_S) as client:
        large = asyncio.create_task(post(client, "hello " * 1_700_000))
        good = await post(client, "sunny")
        answer = await large

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    assert re.search(r"at least \d+ tokens and the limit is \d+", error["message"])
    assert content(good) == ANSWERS["sunny"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "scripted", "messages": [{"role": "user", "content": "\xff\xfe"}]}',
        b'{"model": "scripted", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b"\x1f\x8b\x08\x00" + b"\x00" * 64,
        b"NaN",
        b'{"temperature": NaN, "model": "scripted", "messages": []}',
        b'{"model": "scripted", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
async def test_bodies_that_nobody_can_read_are_the_clients_fault(
    served: Served, body: bytes
) -> None:
    async with httpx2.AsyncClient(base_url=served.url, timeout=BOUND_S) as client:
        answer = await client.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )

    assert 400 <= answer.status_code < 500
    assert json.loads(answer.text)["error"]["message"]
