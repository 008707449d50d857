"""What is misspelt is said where it is written, not kept silently."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit import (
    Agent,
    AgentkitError,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    Hooks,
    LimitReached,
    Limits,
    TurnLimitReached,
    tool,
)
from agentkit.testing import Call, ScriptedModel


def _class(base: type[Any], **body: Any) -> type[Any]:
    return type("Mine", (base,), body)


async def _hook(self: Any, at: Any, *more: Any) -> None: ...


def _sync(self: Any, at: Any) -> None: ...


async def _alone(self: Any) -> None: ...


@pytest.mark.parametrize("name", ["before_tools", "before_run", "guard_inputs", "after_turns"])
def test_a_method_that_is_nearly_a_hook_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Mine.{name} is no hook.*did you mean"):
        _class(Hooks, **{name: _hook})


def test_a_hook_that_cannot_be_called_as_it_is_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"write: async def before_turn\(self, at\)"):
        _class(Hooks, before_turn=_sync)
    with pytest.raises(ConfigurationError, match=r"write: async def after_turn\(self, at\)"):
        _class(Hooks, after_turn=_alone)


def test_hooks_keep_methods_of_their_own() -> None:
    _class(Hooks, before_turn=_hook, _before_turns=_sync, check_password=_sync, on_error=_hook)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("max_turn", 3, "max_turns"),
        ("max_turn_s", 3, "max_turns"),
        ("system_prompt", "You are.", "instructions"),
        ("instruction", "You are.", "instructions"),
        ("result_type", int, "output_type"),
        ("tool", [print], "tools"),
        ("limit", Limits(turns=3), "limits"),
    ],
)
def test_a_value_that_is_nearly_a_setting_is_refused(name: str, value: Any, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Mine.{name} = .*did you mean '{meant}'"):
        _class(Agent, **{name: value})


def test_agents_keep_values_and_methods_of_their_own() -> None:
    _class(Agent, n_tries=3, _max_turn=3, names=["a"], table="runs", rule=_sync, currency="EUR")


def test_two_different_tools_of_one_name_are_refused_within_one_agent() -> None:
    def query_of(place: str) -> Any:
        def query(sql: str) -> str:
            """Run SQL."""
            return f"{place} ran {sql}"

        return query

    one = query_of("one")
    agent = Agent(name="a", model=ScriptedModel([]), tools=[one, query_of("other")])
    with pytest.raises(ConfigurationError, match="two different tools 'query'"):
        agent.run_sync("Hi.")
    again = Agent(name="a", model=ScriptedModel(["Ok."]), tools=[one, one])
    assert again.run_sync("Hi.").output == "Ok."


def test_methods_of_two_objects_are_different_tools_and_of_one_the_same() -> None:
    class Shop:
        @tool
        def look(self) -> str:
            """Look."""
            return "seen"

    shop = Shop()
    same = Agent(name="a", model=ScriptedModel(["Ok."]), tools=[shop, shop.look])
    assert same.run_sync("Hi.").output == "Ok."
    with pytest.raises(ConfigurationError, match="two different tools 'look'"):
        Agent(name="a", model=ScriptedModel([]), tools=[shop, Shop()]).run_sync("Hi.")
    parent = Agent(
        name="a",
        model=ScriptedModel({"a": ["Ok."]}),
        tools=[shop],
        subagents=[Agent(name="b", instructions="You look.", tools=[Shop()])],
    )
    assert parent.run_sync("Hi.").output == "Ok."


def test_the_limit_on_turns_is_a_limit() -> None:
    agent = Agent(name="a", model=ScriptedModel([Call("look")]), tools=[look], max_turns=1)
    with pytest.raises(LimitReached) as reached:
        agent.run_sync("Look.")
    error = reached.value
    assert isinstance(error, TurnLimitReached)
    assert (error.limit, error.allowed, error.used) == ("max_turns", 1, 1)
    assert error.partial is not None


async def test_who_waits_has_what_was_done_and_is_approved_with_a_dict() -> None:
    agent = Agent(name="a", model=ScriptedModel([Call("pay", {"eur": 1}), "Ok."]), tools=[pay])
    async with agent.stream("Pay.") as events:
        async for _ in events:
            pass
    with pytest.raises(AgentkitError, match=r"`\.paused` is what to go on with"):
        _ = events.result
    agent = Agent(name="a", model=ScriptedModel([Call("pay", {"eur": 1}), "Ok."]), tools=[pay])
    with pytest.raises(ApprovalRequired) as waits:
        await agent.run("Pay.")
    assert waits.value.partial is not None
    assert len(waits.value.partial.requests) == 1
    answer = Approve(arguments={"eur": 2})
    assert answer == Approve('{"eur": 2}')
    result = await agent.resume(waits.value.paused, {waits.value.paused.pending[0].id: answer})
    assert "paid 2" in result.messages[2].results[0].content  # type: ignore[union-attr]
    with pytest.raises(ConfigurationError, match="must be a dict or the JSON text"):
        Approve(arguments={"eur": object()})


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool(requires_approval=True)
def pay(eur: int) -> str:
    """Pay."""
    return f"paid {eur}"
