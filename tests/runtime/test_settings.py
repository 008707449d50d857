"""Whatever callers set wrongly is refused where they set it, by name and with the value."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from agentkit_runtime.chat import ChatMessage, ChatRequest
from agentkit_runtime.kv.hints import LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.pins import PinQuota
from agentkit_runtime.kv.policy import Lfu
from agentkit_runtime.kv.prune import ByNamespace, ByPrefix
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tiers.open import TierOptions
from agentkit_runtime.load import EngineOptions
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import GenerateRequest, Priority, SamplingParams
from bench.tiny import Silent

NEEDED: dict[type, dict[str, Any]] = {
    GenerateRequest: {"request_id": "r", "prompt": (1,), "namespace": b"n", "text": Silent()},
    ChatRequest: {"messages": ()},
    ChatMessage: {"role": "user"},
    ByNamespace: {"namespace": b"n"},
    ByPrefix: {"namespace": b"n", "tokens": b""},
    SessionWaits: {"session": "s", "expected_s": 1.0},
    SessionDone: {"session": "s"},
    LikelyNext: {"tags": frozenset(), "within_s": 1.0},
    TierOptions: {"host_bytes": 1},
}
NO_COUNT = [-1, 1.5, math.nan, math.inf, "1", True, b"1"]
NO_SECONDS = [-1.0, math.nan, "1", True]
NO_FINITE_SECONDS = [*NO_SECONDS, math.inf]
NO_TEXT = [1, b"x", ["x"]]
NO_TEXTS = ["abc", {"a"}, ["a"], frozenset([1]), None]
WRONG: dict[type, dict[str, list[Any]]] = {
    ChatMessage: {"role": ["bogus", None, "User"], "content": NO_TEXT},
    ByNamespace: {"namespace": ["ann", None]},
    ByPrefix: {"namespace": ["ann"], "tokens": ["text", (1,)]},
    SamplingParams: {
        "temperature": [*NO_FINITE_SECONDS, 100.1, None],
        "top_k": NO_COUNT,
        "top_p": [0, -0.1, 1.1, math.nan, math.inf, "1", True],
        "seed": [1.5, "1", math.nan, 2**64, -(2**63) - 1, True],
        "max_tokens": NO_COUNT,
        "logprobs": [*NO_COUNT, 21],
        "stop": ["END", ["END"], (1,), ("a", ""), None],
    },
    GenerateRequest: {
        "request_id": NO_TEXT,
        "prompt": [[1], "ab", None],
        "namespace": ["n", None],
        "sampling": [None, {}],
        "scope": [None, "tenant"],
        "priority": [1, 7, "high", None],
        "deadline_s": NO_SECONDS,
        "speculate": [*NO_COUNT, 65],
    },
    ChatRequest: {
        "tool_choice": ["maybe", 1, None],
        "messages": [[], "hello", None],
        "tools": [[], None, "ab"],
        "allowed_tools": ["search", ["search"], frozenset([1])],
        "sampling": [None, {}],
        "tenant": [None, *NO_TEXT],
        "request_id": NO_TEXT,
        "session": NO_TEXT,
        "tags": NO_TEXTS,
        "priority": [1, "high", None],
        "deadline_s": NO_SECONDS,
        "speculate": [*NO_COUNT, 65],
    },
    Scope: {
        "tenant": [None, *NO_TEXT],
        "public": ["public", 1],
        "session": NO_TEXT,
        "tags": NO_TEXTS,
    },
    SessionWaits: {
        "session": [None, *NO_TEXT],
        "expected_s": [None, *NO_SECONDS],
        "tenant": [None, *NO_TEXT],
    },
    SessionDone: {"session": [None, *NO_TEXT], "tenant": [None, *NO_TEXT]},
    LikelyNext: {"tags": NO_TEXTS, "within_s": [None, *NO_SECONDS], "tenant": [None, *NO_TEXT]},
    PinQuota: {"per_tenant": NO_COUNT, "total": NO_COUNT},
    TierOptions: {
        "host_bytes": [0, None, *NO_COUNT],
        "disk_bytes": [0, None, *NO_COUNT],
        "disk_folder": ["folder"],
    },
    EngineOptions: {
        **{
            name: [0, 10**30, *NO_COUNT]
            for name in ("max_slots", "threads", "kv_events", "host_cache_bytes")
        },
        "disk_cache_bytes": [0, 5, *NO_COUNT],  # without a folder none is of use
        "adapter": ["folder"],
        "disk_cache": ["folder", 1],
        "dtype": ["float8", 1],
        "attention": ["magic", None],
        "weights": ["int3", 1],
        "kv_dtype": ["int3", 1],
        "eviction": ["random", 1],
        "pin_quota": [5],
        "scheduler": [None, {}],
    },
    SchedulerOptions: {
        **{
            name: [0, None, *NO_COUNT]
            for name in (
                "step_tokens",
                "max_lanes",
                "max_scan",
                "shared_min_tokens",
                "turns_per_old",
                "max_restores",
            )
        },
        **{
            name: [None, *NO_COUNT]
            for name in ("reserve_tokens", "max_overtakes", "max_preemptions")
        },
        **{
            name: [None, *NO_FINITE_SECONDS]
            for name in ("cached_token_s", "returning_s", "patience_s")
        },
        "mixed_prefill_tokens": [0, *NO_COUNT],
        "deadline_lead_s": NO_FINITE_SECONDS,
        "preempt_for_priority": [1, None, "no"],
        "tenant_weights": [None, [], *({"t": weight} for weight in (0, "1", *NO_FINITE_SECONDS))],
    },
}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (kind, name, value)
        for kind, fields in WRONG.items()
        for name, values in fields.items()
        for value in values
    ],
    ids=repr,
)
def test_a_value_that_cannot_work_is_refused_at_once(kind: type, name: str, value: Any) -> None:
    with pytest.raises(ValueError) as caught:
        kind(**{**NEEDED.get(kind, {}), name: value})
    message = str(caught.value)
    shown = value["t"] if isinstance(value, dict) and value else value
    assert name.removesuffix("_weights") in message or name in ("weights", "kv_dtype", "eviction")
    assert repr(shown) in message or name == "stop"


@pytest.mark.parametrize("kind", list(WRONG), ids=lambda kind: kind.__name__)
def test_what_is_needed_is_enough(kind: type) -> None:
    kind(**NEEDED.get(kind, {}))


def test_extreme_but_sensible_values_are_taken() -> None:
    SamplingParams(temperature=100, top_p=1, seed=-1, max_tokens=10**12, stop=("a",))
    GenerateRequest(**NEEDED[GenerateRequest], deadline_s=math.inf, priority=Priority.BATCH)
    GenerateRequest(**NEEDED[GenerateRequest], deadline_s=0)
    SessionWaits("s", math.inf)
    TierOptions(host_bytes=1, disk_folder=Path("folder"))
    SchedulerOptions(patience_s=0, cached_token_s=0, tenant_weights={"t": 1e-6})


def test_a_policy_of_ones_own_is_an_option() -> None:
    mine = Lfu()
    assert EngineOptions(eviction=mine).eviction is mine
