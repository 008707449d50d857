"""A served agent is asked: by the SDK's client, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from pydantic import BaseModel

from agentkit import Agent, ConfigurationError, Limits, McpServer, MemoryJournal, tool
from agentkit.errors import ModelError
from agentkit.serving import serve_mcp
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from tests.agentkit.serving.hanging import Hanging

Connect = Callable[..., Client]


class Finding(BaseModel):
    """What was found."""

    path: str
    line: int


def desk(*script: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(
        model=ScriptedModel(list(script)),
        name="desk",
        instructions="You answer currency questions.\n\nNever guess.",
        **more,
    )


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


async def test_the_listing_is_the_same_bytes_for_each_client_and_each_start(
    client: Connect,
) -> None:
    listings = set()
    for _ in range(3):
        async with client(desk()) as one:
            listed = await one.list_tools(cache_mode="bypass")
            listings.add(json.dumps([each.model_dump(mode="json") for each in listed.tools]))
    (listing,) = listings
    (ask,) = json.loads(listing)
    assert ask["name"] == "ask_desk"
    assert "You answer currency questions." in ask["description"]
    assert "Never guess" not in ask["description"]
    assert ask["input_schema"]["required"] == ["prompt"]


async def test_the_answer_comes_with_the_runs_id_and_what_it_used(client: Connect) -> None:
    async with client(desk("4.50 EUR.")) as one:
        result = await one.call_tool("ask_desk", {"prompt": "How much is 5 dollars?"})
    assert text_of(result) == "4.50 EUR."
    assert not result.is_error
    assert result.structured_content is None
    used = (result.meta or {})["agentkit/run"]
    assert used["requests"] == 1
    assert used["input_tokens"] > 0
    assert used["finish"] == "stop"


async def test_a_typed_answer_is_structured_and_fits_the_schema_that_was_listed(
    client: Connect,
) -> None:
    agent = desk('{"path": "fire.md", "line": 16}', output_type=Finding)
    async with client(agent) as one:
        (ask,) = (await one.list_tools()).tools
        assert ask.output_schema is not None
        assert set(ask.output_schema["properties"]) == {"path", "line"}
        result = await one.call_tool("ask_desk", {"prompt": "Where?"})
    assert result.structured_content == {"path": "fire.md", "line": 16}
    assert json.loads(text_of(result)) == {"path": "fire.md", "line": 16}


async def test_an_answer_that_is_no_object_is_wrapped_into_one(client: Connect) -> None:
    async with client(desk("[1, 2]", output_type=list[int])) as one:
        result = await one.call_tool("ask_desk", {"prompt": "Which?"})
    assert result.structured_content == {"result": [1, 2]}
    assert text_of(result) == "[1,2]"


async def test_who_may_be_handed_over_to_answers_in_words_so_no_schema_is_promised(
    client: Connect,
) -> None:
    class Clerk(Agent[None, str]):
        """You refund."""

    model = ScriptedModel({"router": [Call("handoff_to_clerk", {"note": "n"})], "clerk": ["Done."]})
    router = Agent(
        model=model, name="router", instructions="Route.", handoffs=[Clerk], output_type=Finding
    )
    async with client(router) as one:
        (ask,) = (await one.list_tools()).tools
        assert ask.output_schema is None
        assert text_of(await one.call_tool("ask_router", {"prompt": "Refund me."})) == "Done."


async def test_calls_of_a_session_go_on_with_one_conversation(client: Connect) -> None:
    agent = desk("One.", "Two.", "Other.")
    async with client(agent) as one:
        await one.call_tool("ask_desk", {"prompt": "First", "session": "s"})
        await one.call_tool("ask_desk", {"prompt": "Second", "session": "s"})
        await one.call_tool("ask_desk", {"prompt": "Third"})
    assert isinstance(agent.model, ScriptedModel)
    first, second, third = agent.model.calls
    assert_prefix_stable([first, second])
    assert len(second.request.context.messages) == 3
    assert len(third.request.context.messages) == 1


async def test_a_journal_keeps_sessions_beyond_the_server(client: Connect) -> None:
    journal = MemoryJournal()
    before, after = desk("One.", journal=journal), desk("Two.", journal=journal)
    async with client(before) as one:
        await one.call_tool("ask_desk", {"prompt": "First", "session": "s"})
    async with client(after) as one:
        await one.call_tool("ask_desk", {"prompt": "Second", "session": "s"})
    assert isinstance(after.model, ScriptedModel)
    assert len(after.model.calls[0].request.context.messages) == 3


async def test_a_session_that_was_dropped_is_not_begun_anew_in_silence(client: Connect) -> None:
    agent = desk("A.", "B.", "C.")
    async with client(agent, serve={"max_sessions": 2}) as one:
        for session in ("a", "b", "c"):
            await one.call_tool("ask_desk", {"prompt": "x", "session": session})
        gone = await one.call_tool("ask_desk", {"prompt": "again", "session": "a"})
    assert gone.is_error
    assert "'a' is not known any more" in text_of(gone)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'prompt' is missing"),
        ({"prompt": ""}, "must not be empty"),
        ({"prompt": 5}, "must be a text, not 5"),
        ({"prompt": "x", "session": "s" * 201}, "at most 200 characters"),
        ({"prompt": "x", "sesion": "s"}, "There is no argument 'sesion'"),
    ],
)
async def test_wrong_arguments_are_an_answer_that_says_what_is_wrong(
    client: Connect, arguments: dict[str, Any], problem: str
) -> None:
    async with client(desk()) as one:
        result = await one.call_tool("ask_desk", arguments)
    assert result.is_error
    assert problem in text_of(result)


async def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol(client: Connect) -> None:
    async with client(desk()) as one:
        with pytest.raises(MCPError, match="no tool 'ask_nobody'"):
            await one.call_tool("ask_nobody", {"prompt": "x"})


async def test_a_run_that_fails_is_an_error_result_with_what_it_has_cost(client: Connect) -> None:
    agent = desk(Call("look", {}), ModelError("the model is on fire"), tools=[look])
    async with client(agent) as one:
        result = await one.call_tool("ask_desk", {"prompt": "x"})
    assert result.is_error
    assert "the model is on fire" in text_of(result)
    used = (result.meta or {})["agentkit/run"]
    assert used["requests"] == 2
    assert used["cost_usd"] is None, "the model costs nothing"


async def test_a_limit_that_is_reached_is_an_error_result(client: Connect) -> None:
    agent = desk(Call("look", {}), "never", tools=[look], limits=Limits(turns=1))
    async with client(agent) as one:
        result = await one.call_tool("ask_desk", {"prompt": "x"})
    assert result.is_error
    assert "limit turns=1" in text_of(result)


async def test_an_apps_own_error_is_named_and_its_text_stays_in_the_log(
    client: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(desk(ZeroDivisionError("the password is hunter2"))) as one:
        result = await one.call_tool("ask_desk", {"prompt": "x"})
    assert result.is_error
    assert "ZeroDivisionError" in text_of(result)
    assert "hunter2" not in text_of(result)
    assert "hunter2" in caplog.text


async def test_calls_run_side_by_side_up_to_the_limit_and_in_a_session_one_by_one(
    client: Connect,
) -> None:
    model = Hanging()
    agent = Agent(model=model, name="desk", instructions="You answer.")
    async with client(agent, serve={"max_runs": 3}) as one:
        model.gate.clear()
        asked = [one.call_tool("ask_desk", {"prompt": "x"}) for _ in range(8)]
        answers = asyncio.gather(*asked)
        await model.is_full.wait()
        model.gate.set()
        assert {text_of(each) for each in await answers} == {"ok"}
        assert model.most_running == 3
        model.most_running = 0
        asked = [one.call_tool("ask_desk", {"prompt": "x", "session": "s"}) for _ in range(4)]
        await asyncio.gather(*asked)
        assert model.most_running == 1
    lengths = [len(each.request.context.messages) for each in model.calls[-4:]]
    assert lengths == [1, 3, 5, 7]


async def test_the_agents_own_servers_are_connected_once_and_ended_with_the_last_client(
    client: Connect, tmp_path: Path
) -> None:
    (tmp_path / "note.md").write_text("closed on Mondays\n")
    log = tmp_path / "starts"
    code = (
        "import os, runpy, sys; open(os.environ['LOG'], 'a').write('s')\n"
        "sys.argv = ['files', '.']; runpy.run_module('agentkit_tools.files', run_name='__main__')"
    )
    files = McpServer(
        alias="files",
        command=[sys.executable, "-c", code],
        cwd=tmp_path,
        env={"LOG": str(log)},
        inherit_env=["PYTHONPATH"],
    )
    read = Call("files__read_lines", {"path": "note.md"})
    agent = desk(read, "Read.", read, "Again.", tools=[files])
    server_of = client(agent).server
    assert not isinstance(server_of, str)
    async with Client(server_of, read_timeout_seconds=30) as one:
        async with Client(server_of, mode="legacy", read_timeout_seconds=30) as two:
            assert text_of(await one.call_tool("ask_desk", {"prompt": "x"})) == "Read."
            assert text_of(await two.call_tool("ask_desk", {"prompt": "y"})) == "Again."
        assert agent.is_open
    assert not agent.is_open
    assert log.read_text() == "s"


async def test_servers_that_cannot_be_connected_are_said_and_tried_again(
    client: Connect, tmp_path: Path
) -> None:
    broken = McpServer(alias="gone", command=[str(tmp_path / "nothing")])
    async with client(desk("x", tools=[broken])) as one:
        for _ in range(2):
            result = await one.call_tool("ask_desk", {"prompt": "x"})
            assert result.is_error
            assert "gone" in text_of(result)


async def test_an_agent_that_the_app_has_opened_stays_open(client: Connect) -> None:
    agent = desk("One.")
    async with agent:
        async with client(agent) as one:
            assert text_of(await one.call_tool("ask_desk", {"prompt": "x"})) == "One."
        assert agent.is_open


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tool": "ask.desk"}, "not legal at every provider"),
        ({"tool": "a" * 60, "decide_tool": True}, "not legal at every provider"),
        ({"max_runs": 0}, "max_runs must be an int of at least 1, got 0"),
        ({"max_sessions": True}, "max_sessions must be an int of at least 1, got True"),
    ],
)
def test_options_of_no_use_are_refused_when_the_server_is_made(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        serve_mcp(desk(), **options)


@tool
def look() -> str:
    """Look."""
    return "seen"
