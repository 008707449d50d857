"""The wire files, through the official client."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping

import pytest
import respx
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from tests.agentkit.models.hosted.openai_responses.talk import (
    URL,
    adapter,
    collect,
    completed,
    created,
    sse,
    text,
)
from tests.golden.wire.openai_responses.make import FOLDER, REQUESTS

MARK = re.compile(rb',"prompt_cache_breakpoint":\{[^{}]*\}')
VOLATILE = re.compile(
    rb',\{"type":"message","role":"user","content":\[\{"type":"input_text","text":"It is '
)


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_official_client_sends_the_golden_bytes(
    httpx2_mock: respx.Router, name: str
) -> None:
    httpx2_mock.post(URL).mock(return_value=sse(created(), text("Hi"), completed()))
    api, (made, planned) = adapter(), REQUESTS[name]

    await collect(api, api.body(api.layout(made), planned, made))

    assert httpx2_mock.calls.last.request.content == (FOLDER / f"{name}.json").read_bytes()


def test_each_golden_request_extends_the_one_before_in_cache_order() -> None:
    prompts = [stable((FOLDER / f"{name}.json").read_bytes()) for name in REQUESTS]

    for before, after in itertools.pairwise(prompts):
        assert after.startswith(before)
        assert len(after) > len(before)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_golden_bytes_fit_the_official_clients_types_to_the_last_field(name: str) -> None:
    data = (FOLDER / f"{name}.json").read_bytes()

    types = TypeAdapter(ResponseCreateParamsStreaming)  # must live while its iterables do

    known = everything(types.validate_json(data, strict=True))

    # Fields that the types do not know would be missing.
    assert known == json.loads(data)


def everything(value: object) -> object:
    """The value with all that pydantic would check later: it leaves iterables for their use."""
    if isinstance(value, Mapping):
        return {name: everything(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [everything(item) for item in value]
    return value


def stable(data: bytes) -> bytes:
    """The prompt, which comes first, without marks and without the volatile text."""
    prompt = MARK.sub(b"", data[: data.index(b'],"model":')])
    volatile = VOLATILE.search(prompt)
    return prompt[: volatile.start()] if volatile else prompt
