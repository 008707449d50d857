"""Where servers say what they read and wrote."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.caching.policy import InputSplit, Ttl
from agentkit.events import ModelEnd, UsageEvent
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    GROQ,
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    VLLM,
    Profile,
)
from agentkit.usage import Usage
from tests.agentkit.models.hosted.openai_chat.chunks import FULL, STOP, events, read
from tests.agentkit.models.hosted.openai_chat.talk import chunk, usage_chunk


def test_the_usage_of_a_last_chunk_without_choices_counts() -> None:
    """C74: with include_usage the numbers come in a chunk that has no choices."""
    turn = read(chunk({"content": "Hi"}), STOP, usage_chunk(**FULL))

    assert turn.usage == Usage(
        input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=300, output_tokens=7
    )


def test_usage_is_known_as_soon_as_it_comes_and_again_at_the_end() -> None:
    found = events(chunk({"content": "Hi"}, usage=FULL), STOP)

    usages = [event for event in found if isinstance(event, UsageEvent)]
    assert [event.usage.input_tokens for event in usages] == [1_000, 1_000]
    assert found[-2] is usages[-1]
    assert found[-1] == ModelEnd("stop")


@pytest.mark.parametrize(
    ("profile", "usage", "read_tokens", "written"),
    [
        (OPENAI, FULL, 600, 300),
        (OPENROUTER, FULL, 600, 300),
        (MOONSHOT, FULL, 600, 300),
        (MOONSHOT, {"prompt_tokens": 1_000, "cached_tokens": 600}, 600, None),
        (
            DEEPSEEK,
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3},
            6,
            None,
        ),
        (DEEPSEEK, {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 6}}, 6, None),
        (
            VLLM,
            {"prompt_tokens_details": {"cached_tokens": 16, "created_cache_tokens": 32}},
            16,
            32,
        ),
        (MISTRAL, {"prompt_tokens": 64, "prompt_tokens_details": {"cached_tokens": 64}}, 64, None),
        (OPENAI, {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}, 0, None),
        (VLLM, {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6}, 6, None),
        (OPENAI, {"prompt_tokens": 9, "prompt_tokens_details": None}, None, None),
        (OPENAI, {"prompt_tokens": 9}, None, None),
    ],
)
def test_cached_usage_is_visible_in_every_servers_words(
    profile: Profile, usage: dict[str, Any], read_tokens: int | None, written: int | None
) -> None:
    """C80: any field that counts cached tokens is mapped; what is absent is unknown, not 0."""
    found = read(STOP, usage_chunk(**usage), profile=profile).usage

    assert (found.cache_read_tokens, found.cache_write_tokens) == (read_tokens, written)


def test_hits_and_misses_are_the_input_where_it_is_not_given() -> None:
    usage = {"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3}

    assert read(STOP, usage_chunk(**usage), profile=DEEPSEEK).usage.input_tokens == 9


def test_a_server_that_counts_reads_beside_its_input_is_neither_clamped_nor_negative() -> None:
    """C76: what is neither read nor written is what the server says, not 0 and not below."""
    usage = {
        "prompt_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 100},
    }
    found = read(STOP, usage_chunk(**usage)).usage

    assert found.input_tokens == 1_050
    plain = read(STOP, usage_chunk(**FULL)).usage
    for each, base in ((found, 50), (plain, 100)):
        assert each.input_tokens is not None
        split = InputSplit(
            read=each.cache_read_tokens or 0,
            writes=((Ttl.FIVE_MINUTES, each.cache_write_tokens or 0),),
            uncached=base,
        )
        assert split.total == each.input_tokens


def test_usage_that_grows_in_a_stream_ends_as_if_it_had_come_at_once() -> None:
    """C70: counts that come with every chunk are not added up: same usage, same cost."""
    growing = read(
        chunk({"content": "a"}, usage={**FULL, "completion_tokens": 1}),
        chunk({"content": "b"}, usage={**FULL, "completion_tokens": 4}),
        STOP,
        usage_chunk(**FULL),
    ).usage

    assert growing == read(STOP, usage_chunk(**FULL)).usage


def test_a_later_count_refines_an_earlier_one_field_by_field() -> None:
    """C73: a last chunk that has only the output keeps what was read before."""
    found = read(
        chunk({"content": "a"}, usage=FULL),
        STOP,
        usage_chunk(prompt_tokens=None, prompt_tokens_details=None, completion_tokens=9),
    ).usage

    assert found == Usage(
        input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=300, output_tokens=9
    )


def test_usage_is_found_where_the_server_hides_it() -> None:
    hidden = chunk({}, "stop")
    hidden["choices"][0]["usage"] = FULL

    assert read(hidden, profile=MOONSHOT).usage.input_tokens == 1_000
    turn = read(chunk({}, "stop", x_groq={"usage": FULL}), profile=GROQ)
    assert turn.usage.cache_read_tokens == 600
