"""Models: one protocol, and one adapter for each kind of model.

base.py      Model, ModelRequest and what a request may ask for
resolve.py   model strings: "local:smollm2", "anthropic:..." -> the model
hosted/      models behind an API: planned, sent by the vendor's SDK, judged; an adapter for each
local.py     our own runtime in this process; runtime.py: a server of ours
own/         what both have in common; only these three import agentkit_runtime
engines.py   one engine for each process and local model; prices.py: what tokens cost
fallback.py  FallbackModel: the next model where one fails; routes.py: models that stand for others
throttle.py  how many requests at once and in a minute; rates.py: RateLimits, and how they wait
scripted.py  a test double that replays a script and records what it was asked
An adapter is a pure translation and a thin stream; it decides nothing about the prefix.
"""

from __future__ import annotations

from agentkit.models.base import (
    Model,
    ModelRequest,
    Reuse,
    Settings,
    ToolChoice,
    ToolName,
)
from agentkit.models.fallback import FallbackModel
from agentkit.models.rates import RateLimits
from agentkit.models.resolve import resolve_model
from agentkit.models.throttle import limit_rates

__all__ = [
    "FallbackModel",
    "Model",
    "ModelRequest",
    "RateLimits",
    "Reuse",
    "Settings",
    "ToolChoice",
    "ToolName",
    "limit_rates",
    "resolve_model",
]
