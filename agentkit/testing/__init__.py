"""For tests of agents: models that follow a script or a function, and checks of the cached prefix.

function_model.py  FunctionModel; ScriptedModel is in agentkit.models.scripted
capture.py         what models were asked inside a test, also on the wire
assertions.py      assert_prefix_stable, assert_extends, assert_stable_build
cache.py           assert_cache: a run's requests on a provider's simulated cache
plugin.py          for pytest: fixtures, the switch that forbids real calls, recorded wire traffic
wire/              what the plugin records, replays and refuses
"""

from __future__ import annotations

from agentkit.models.doubles import Call, ModelCall, Reply, Say
from agentkit.models.scripted import ScriptedModel, Step, UnconsumedSteps, UnexpectedCall
from agentkit.testing.assertions import assert_extends, assert_prefix_stable, assert_stable_build
from agentkit.testing.cache import assert_cache
from agentkit.testing.capture import Capture, SentBody, capture
from agentkit.testing.function_model import AskInfo, FunctionModel

__all__ = [
    "AskInfo",
    "Call",
    "Capture",
    "FunctionModel",
    "ModelCall",
    "Reply",
    "Say",
    "ScriptedModel",
    "SentBody",
    "Step",
    "UnconsumedSteps",
    "UnexpectedCall",
    "assert_cache",
    "assert_extends",
    "assert_prefix_stable",
    "assert_stable_build",
    "capture",
]
