"""An answer in chunks, and what our reader makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.caching.policy import UsageField
from agentkit.events import ModelEvent, Turn
from agentkit.folding import fold
from agentkit.models.hosted.openai_chat import OPENAI, Profile
from agentkit.models.hosted.openai_chat.stream import ChunkReader
from tests.agentkit.models.hosted.openai_chat.talk import Clock, chunk

VLLM_USAGE = UsageField(
    path="usage.prompt_tokens_details.cached_tokens",
    written_path="usage.prompt_tokens_details.created_cache_tokens",
)


def events(*chunks: Mapping[str, Any], profile: Profile = OPENAI) -> list[ModelEvent]:
    reader = ChunkReader("m:x", profile, profile.usage or VLLM_USAGE, Clock())
    found = [event for each in chunks for event in reader.push(each)]
    return [*found, *reader.finish()]


def read(*chunks: Mapping[str, Any], profile: Profile = OPENAI) -> Turn:
    return fold(events(*chunks, profile=profile))


def call(index: int | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with one call delta."""
    function = {k: more.pop(k) for k in ("name", "arguments") if k in more}
    delta = {"index": index, **more, "function": function}
    return chunk({"tool_calls": [{k: v for k, v in delta.items() if v is not None}]})


STOP, CALLED = chunk({}, "stop"), chunk({}, "tool_calls")


FULL = {
    "prompt_tokens": 1_000,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
}
