"""Bodies against the official client's own types: no field that it does not know, none missing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from agentkit.caching.policy import Ttl
from agentkit.caching.request import OpenAiOptions
from agentkit.context import Context
from agentkit.models.base import ModelRequest, Settings, ToolName
from tests.agentkit.models.hosted.openai_chat.talk import QUESTION, body, plan, turns
from tests.agentkit.models.hosted.weather import FRONT, request
from tests.golden.wire.openai_chat.make import FOLDER, NAMES

TYPES: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)


def known(data: bytes) -> object:
    """What the client's types keep of a body: they drop fields that they do not know."""
    return whole(TYPES.validate_json(data))


def whole(value: object) -> object:
    """The value with everything that is checked only when it is read."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {name: whole(item) for name, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, Iterable) else value


@pytest.mark.parametrize("name", NAMES)
def test_golden_bodies_have_only_fields_that_the_client_knows(name: str) -> None:
    data = (FOLDER / "openai" / f"{name}.json").read_bytes()

    assert known(data) == json.loads(data)


@pytest.mark.parametrize(
    "made",
    [
        request(Context(*FRONT, QUESTION), tool_choice="required"),
        request(Context(*FRONT, QUESTION), tool_choice=ToolName("lookup")),
        request(Context(QUESTION), output_schema={"type": "object", "properties": {}}),
        request(
            Context(QUESTION),
            settings=Settings(temperature=0.5, top_p=0.5, seed=1, max_tokens=9, stop=("a", "b")),
        ),
        turns(picture=True)[2],
    ],
    ids=["required", "one tool", "schema", "settings", "picture"],
)
def test_what_steers_an_answer_is_written_as_the_client_would(made: ModelRequest) -> None:
    options = OpenAiOptions(api="chat", mode="explicit", ttl=Ttl.THIRTY_MINUTES, retention="24h")
    planned = dataclasses.replace(plan(cache_key="k"), openai=options)

    data = body(
        made,
        planned,
        reasoning_effort="low",
        verbosity="high",
        service_tier="flex",
        parallel_tool_calls=False,
    ).data

    assert known(data) == json.loads(data)


def test_a_field_that_the_client_does_not_know_would_be_noticed() -> None:
    parsed = json.loads(body(turns()[1]).data)
    parsed["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}

    assert known(json.dumps(parsed).encode()) != parsed
