"""The wire files, through the official client."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from agentkit.models.hosted.gemini import GeminiAdapter
from tests.agentkit.models.hosted.gemini.talk import MODEL, FakeServer, events_of, plan
from tests.golden.wire.gemini.make import FOLDER, OBJECT, OPTIONS, REQUESTS, bodies, with_object

VOLATILE = re.compile(rb',\{"role":"user","parts":\[\{"text":"It is ')


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_official_client_sends_the_golden_bytes(name: str) -> None:
    server, made = FakeServer(), REQUESTS[name]
    api = server.adapter(options=OPTIONS)
    layout = api.layout(made)

    await events_of(api.stream(api.body(layout, plan(layout), made)))

    assert server.sent[0].content == (FOLDER / f"{name}.json").read_bytes()


def test_each_golden_request_extends_the_one_before_in_cache_order() -> None:
    prompts = [stable((FOLDER / f"{name}.json").read_bytes()) for name in REQUESTS]

    for before, after in itertools.pairwise(prompts[:3]):
        assert after.startswith(before)
        assert len(after) > len(before)
    assert prompts[3] == prompts[2]


def test_an_object_and_the_rest_are_together_the_whole_request() -> None:
    full = json.loads((FOLDER / "3_other_volatile_text_and_a_pdf.json").read_bytes())
    front = json.loads((FOLDER / f"{OBJECT}.create.json").read_bytes())
    rest = json.loads((FOLDER / f"{OBJECT}.json").read_bytes())

    assert rest.pop("cachedContent") == "cachedContents/1"
    assert {**front, **rest} == full
    assert not front.keys() & rest.keys()


def test_the_golden_files_are_what_is_sent_today() -> None:
    for file, data in bodies():
        assert data == (FOLDER / file).read_bytes(), f"{file}: see make.py"


def test_the_full_prompt_of_a_request_with_an_object_is_that_without_one() -> None:
    body = with_object(GeminiAdapter(MODEL, options=OPTIONS))

    assert body.data == (FOLDER / "3_other_volatile_text_and_a_pdf.json").read_bytes()


def stable(data: bytes) -> bytes:
    """The prompt, which comes first, up to its end or the volatile text."""
    prompt = data[: data.index(b'],"toolConfig"' if b'"toolConfig"' in data else b'],"gener')]
    volatile = VOLATILE.search(prompt)
    return prompt[: volatile.start()] if volatile else prompt
