"""Simulated provider caches: what a hosted cache would read, write, bill and report. No network.

cache.py      read first: begin() -> response_began() -> end(), the life of a request
request.py    the input: blocks, marks, identity, tenant; served.py: the answer, or a refusal
anthropic.py  marks and lookback (anthropic_checks.py: refusals); openai.py: openai_marks.py from
              GPT-5.6 on, openai_intervals.py before, routing.py; deepseek.py; gemini.py with
              gemini_objects.py
chain.py      prefix hashes; store.py: entries; billing.py: the split and the bill; diagnose.py
clock.py      ManualClock
"""

from __future__ import annotations

from agentkit.caching.request import (
    Block,
    CacheRequest,
    Identity,
    Mark,
    Message,
    OpenAiOptions,
    Role,
    Tenant,
)
from agentkit.caching.simulate.anthropic import SimulatedAnthropic
from agentkit.caching.simulate.billing import split_at_marks
from agentkit.caching.simulate.cache import InFlight, SimulatedCache
from agentkit.caching.simulate.clock import Clock, ManualClock, system_clock
from agentkit.caching.simulate.deepseek import SimulatedDeepSeek
from agentkit.caching.simulate.gemini import SimulatedGemini
from agentkit.caching.simulate.gemini_objects import CachedContent
from agentkit.caching.simulate.openai import SimulatedOpenAi
from agentkit.caching.simulate.served import Miss, MissReason, RefusalReason, Refused, Served

__all__ = [
    "Block",
    "CacheRequest",
    "CachedContent",
    "Clock",
    "Identity",
    "InFlight",
    "ManualClock",
    "Mark",
    "Message",
    "Miss",
    "MissReason",
    "OpenAiOptions",
    "RefusalReason",
    "Refused",
    "Role",
    "Served",
    "SimulatedAnthropic",
    "SimulatedCache",
    "SimulatedDeepSeek",
    "SimulatedGemini",
    "SimulatedOpenAi",
    "Tenant",
    "split_at_marks",
    "system_clock",
]
