"""The promise: nothing that was sent ever changes, on any wire, whatever a run goes through."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit import Agent, Context, ModelError, OutputError, Retry, TurnLimitReached, tool
from agentkit.models import local
from agentkit.testing import (
    Call,
    ModelCall,
    Reply,
    Say,
    ScriptedModel,
    Step,
    assert_extends,
    assert_prefix_stable,
)

TEXTS = st.sampled_from(["", "a", "é 語 🙂", '{"x": 1}', "line\nline\u2028", " <|im_end|> "])
ARGUMENTS = st.sampled_from(
    ["{}", '{"text":"a"}', '{ "text" : "\\u00e9" }', '{"text": 3}', "{broken", '{"task": "go"}']
)
NAMES = st.sampled_from(["echo", "fail", "retry", "nobody", "delegate_to_child", "child_only"])
CALLS = st.builds(Call, NAMES, ARGUMENTS)
PARTS = st.lists(st.one_of(st.builds(Say, TEXTS), CALLS), min_size=1, max_size=4)
STEPS: st.SearchStrategy[Step] = st.one_of(
    TEXTS,
    PARTS.map(tuple),
    st.just(ModelError("busy", retryable=True, retry_after_s=0.0)),
    st.builds(Reply, parts=PARTS.map(tuple), finish=st.just("length")),
)


class Child(Agent):
    """You help."""

    @tool
    def child_only(self, text: str) -> str:
        """Help."""
        return text


class Parent(Agent):
    """You work."""

    rules = "Be honest."
    subagents = (Child,)
    max_turns = 6

    def volatile(self, turn: int) -> str | None:
        return f"turn {turn}" if turn % 2 else None

    @tool
    def echo(self, text: str) -> str:
        """Echo."""
        return text

    @tool
    def fail(self) -> str:
        """Fail."""
        raise RuntimeError("broken")

    @tool
    async def retry(self, text: str) -> str:
        """Retry."""
        raise Retry(f"not {text!r}")


def assert_wires_extend(calls: Sequence[ModelCall]) -> None:
    runs: dict[str, list[bytes]] = {}
    for call in calls:
        runs.setdefault(call.request.run_id, []).append(local.wire(call.request))
    for wires in runs.values():
        for earlier, later in itertools.pairwise(wires):
            assert_extends(earlier, later)
    fronts = {wires[0].split(b"\n")[0] for wires in runs.values()}
    assert len(fronts) == 1, "agents of one team must share rules and tools"


def after_run(agent: Parent, context: Context | None) -> Context:
    """The context that a run leaves, whether it ends well or not."""
    try:
        return agent.run_sync("go", context=context).context
    except (TurnLimitReached, OutputError, ModelError) as error:
        if error.partial is None:
            raise
        return error.partial.context


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(STEPS, max_size=8),
    st.lists(STEPS, max_size=4),
    st.lists(st.booleans(), min_size=1, max_size=3),
    st.booleans(),
)
def test_whatever_happens_each_request_extends_the_one_before(
    steps: list[Step], child_steps: list[Step], continues: list[bool], structured: bool
) -> None:
    parent_steps, below = iter(steps), iter(child_steps)
    model = ScriptedModel(
        lambda request: next(below, "ok") if request.agent == "child" else next(parent_steps, "1")
    )
    agent = Parent(model=model, output_type=int if structured else str)  # type: ignore[arg-type]
    context = None
    wires: list[bytes] = []
    for goes_on in continues:
        n_calls = len(model.calls)
        context = after_run(agent, context)
        assert context.open_calls == ()
        asked = [call.request for call in model.calls[n_calls:]]
        wires += [local.wire(request) for request in asked if request.agent == "parent"]
        for earlier, later in itertools.pairwise(wires):
            assert_extends(earlier, later)
        if not goes_on:
            context, wires = None, []

    assert_prefix_stable(model.calls)
    assert_wires_extend(model.calls)


PROGRAM = """
import sys
from agentkit import Agent, tool
from agentkit.models import local
from agentkit.testing import Call, ScriptedModel

def alpha(kinds: set[str], mode: str = "x") -> str:
    "Alpha."
    return mode

def beta(b: int, a: int) -> int:
    "Beta."
    return a + b

def gamma(options: dict[str, list[int]]) -> str:
    "Gamma."
    return "g"

order = sys.argv[1]
tools = [alpha, beta, gamma]
kids = [Agent(name=name, tools=[tool], instructions=f"You are {name}.")
        for name, tool in [("one", alpha), ("two", gamma)]]
if order == "reversed":
    tools.reverse()
    kids.reverse()
model = ScriptedModel({
    "lead": [Call("delegate_to_two", {"task": "t"}), Call("beta", {"b": 1, "a": 2}), "done"],
    "two": [Call("gamma", {"options": {}}), "ok"],
})
lead = Agent(model=model, name="lead", rules="R", instructions="I", tools=tools, subagents=kids)
lead.run_sync("x")
for call in model.calls:
    sys.stdout.buffer.write(local.wire(call.request) + call.wire + b"--\\n")
"""


def wires_of_a_new_process(order: str, hash_seed: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, order],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_another_process_hash_seed_and_order_of_registration_give_the_same_bytes() -> None:
    """Regression elsewhere (C1, C2, C7): order from sets, maps and arrival moved the tools."""
    first = wires_of_a_new_process("given", "1")

    assert first.count(b"--\n") == 5
    assert wires_of_a_new_process("reversed", "2") == first
