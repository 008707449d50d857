"""Questions that servers ask in the middle of a call: answered, declined, or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel, Field

from agentkit import (
    Agent,
    Answered,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    Deny,
    McpServer,
    MemoryJournal,
    PausedRun,
    ToolContext,
)
from agentkit.blocks import ToolMessage
from agentkit.events_json import event_to_json
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset import ToolPolicy
from agentkit.toolset.caller import NOBODY, Accept, Question
from tests.agentkit.tool_results import result_texts
from tests.agentkit.virtual_loop import run_virtually

ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


class Size(BaseModel):
    size: str = Field(description="S, M or L", min_length=1, max_length=2)
    number: int = Field(default=1, ge=1, le=9)


class Colour(BaseModel):
    colour: str


def which_size() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def which_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


class Shop:
    """A shop as an MCP server, and what it sold."""

    def __init__(self) -> None:
        self.sold: list[str] = []
        self.server = MCPServer("shop")
        self.may_end = asyncio.Event()

        @self.server.tool()
        def buy(what: str, size: Annotated[Size, Resolve(which_size)]) -> str:
            """Buy something."""
            self.sold.append(f"{size.number} {what} of size {size.size}")
            return f"sold {self.sold[-1]}"

        @self.server.tool()
        def paint(
            size: Annotated[Size, Resolve(which_size)],
            colour: Annotated[Colour, Resolve(which_colour)],
        ) -> str:
            """Paint something."""
            self.sold.append(f"{size.size} in {colour.colour}")
            return f"painted {self.sold[-1]}"

        @self.server.tool()
        async def gossip(context: Context[Any]) -> str:
            """Ask in the old way."""
            said = await context.elicit("Any news?", Colour)
            return f"heard {said.action}"

        @self.server.tool()
        async def sleep() -> str:
            """Wait."""
            await self.may_end.wait()
            return "slept"

    def open(self, protocol: Any = "auto", **more: Any) -> McpServer:
        return McpServer(alias="shop", server=self.server, protocol=protocol, elicits=True, **more)


class Decided(Agent[None, str]):
    """You shop."""

    answer: Accept | Deny | None = None
    asked: tuple[Question, ...] = ()

    async def elicit(self, question: Question, context: ToolContext[Any]) -> Accept | Deny | None:
        self.asked = (*self.asked, question)
        assert context.call_id
        return self.answer


async def paused_by(agent: Agent[Any, Any]) -> PausedRun:
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run("Go.")
    return caught.value.paused


@ERAS
async def test_an_agent_answers_a_question_by_itself_and_the_model_never_sees_it(
    protocol: Any,
) -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    agent = Decided(model=model, tools=[shop.open(protocol)])
    agent.answer = Accept({"size": "XL", "number": 2})
    result = await agent.run("Go.")

    assert shop.sold == ["2 hats of size XL"]
    assert result_texts(result) == ["sold 2 hats of size XL"]
    (question,) = agent.asked
    assert (question.server, question.text, question.url) == ("shop", "Which size?", None)
    assert list(question.fields) == ["size", "number"]
    assert question.fields["size"]["description"] == "S, M or L"
    assert b"Which size" not in model.calls[1].wire
    assert_prefix_stable(model.calls)


@ERAS
@pytest.mark.parametrize(
    "answer", [Deny("I have no idea"), None], ids=["declined by a person", "nobody knows"]
)
async def test_a_question_without_an_answer_is_declined_and_the_model_is_told(
    protocol: Any, answer: Deny | None
) -> None:
    """Nobody can be asked later by a server of the old protocol, nor outside of a run."""
    shop = Shop()
    if answer is None:
        async with shop.open(protocol).connect() as connection:
            output = await connection.call("buy", {"what": "hats"})
        told, reason = output.content, "nobody can be asked here"
    else:
        agent = Decided(
            model=ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."]),
            tools=[shop.open(protocol)],
        )
        agent.answer = answer
        (told,) = result_texts(await agent.run("Go."))
        reason = "a person declined. I have no idea"

    assert f"(The tool asked a person 'Which size?'. There is no answer: {reason}.)" in told
    assert shop.sold == []


async def test_an_old_server_hears_no_and_the_run_goes_on() -> None:
    shop = Shop()
    model = ScriptedModel([Call("shop__gossip"), "Done."])
    result = await Agent(model=model, tools=[shop.open("legacy")]).run("Go.")
    (told,) = result_texts(result)
    assert "nobody could be asked" in told
    assert told.endswith("heard decline")


async def test_without_leave_a_server_cannot_ask_and_does_not_think_that_it_can() -> None:
    shop = Shop()
    server = McpServer(alias="shop", server=shop.server, protocol="legacy")
    async with server.connect() as connection:
        output = await connection.call("gossip", {})
    assert output.is_error
    assert shop.sold == []


async def test_a_question_pauses_the_run_and_the_answer_comes_in_another_process() -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])

    def made() -> Agent[Any, Any]:
        return Agent(name="buyer", model=model, tools=[shop.open()])

    paused = PausedRun.from_json((await paused_by(made())).to_json())
    (pending,) = paused.pending
    assert pending.question is not None
    assert pending.question.text == "Which size?"
    assert pending.question.fields["number"]["maximum"] == 9
    assert shop.sold == []

    result = await made().resume(paused, {pending.id: Accept({"size": "M"})})
    assert shop.sold == ["1 hats of size M"]
    assert result_texts(result) == ["sold 1 hats of size M"]
    assert result.output == "Done."
    assert_prefix_stable(model.calls)


async def test_questions_come_one_after_the_other_and_answers_are_kept() -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__paint"), "Done."])
    agent = Agent(name="buyer", model=model, tools=[shop.open()])
    first = await paused_by(agent)
    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume(first, {first.pending[0].id: Accept({"size": "S"})})
    second = caught.value.paused
    questions = [each.question.text for each in (*first.pending, *second.pending) if each.question]
    assert sorted(questions) == ["Which colour?", "Which size?"]

    result = await agent.resume(second, {second.pending[0].id: Accept({"colour": "red"})})
    assert result_texts(result) == ["painted S in red"]
    assert shop.sold == ["S in red"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Deny("No hats."), "a person declined. No hats."),
        (Answered("Bought by hand."), "Bought by hand."),
    ],
)
async def test_a_waiting_question_can_be_declined_or_its_call_answered_by_hand(
    answer: Deny | Answered, told: str
) -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    agent = Agent(name="buyer", model=model, tools=[shop.open()])
    paused = await paused_by(agent)
    result = await agent.resume(paused, {paused.pending[0].id: answer})
    assert told in result_texts(result)[0]
    assert shop.sold == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Accept({"size": "much too long"}), r"size: .*\(maxLength: 2\)"),
        (Accept({"size": "M", "number": 10}), "number"),
        (Accept({}), "size"),
        (Accept({"size": "M", "colour": "red"}), "colour"),
        (Approve(), r"must be Accept\(values\)"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_run_waits_on(
    answer: Any, words: str
) -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    agent = Agent(name="buyer", model=model, tools=[shop.open()])
    paused = await paused_by(agent)
    with pytest.raises(ConfigurationError, match=words):
        await agent.resume(paused, {paused.pending[0].id: answer})
    await agent.resume(paused, {paused.pending[0].id: Accept({"size": "M"})})
    assert shop.sold == ["1 hats of size M"]


UNFIT = pytest.mark.parametrize(
    "answer",
    [
        Accept({"size": "secret"}),
        {"size": "secret"},
        Approve('{"size": "secret"}'),
        Answered("secret"),
    ],
)


@UNFIT
async def test_an_answer_of_an_agent_that_does_not_fit_is_left_to_a_person(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    agent = Decided(model=model, tools=[shop.open()])
    agent.answer = answer
    paused = await paused_by(agent)
    await agent.resume(paused, {paused.pending[0].id: Accept({"size": "M"})})
    assert shop.sold == ["1 hats of size M"]
    assert "elicit has no answer of use for MCP server 'shop'" in caplog.text
    assert "secret" not in caplog.text


@UNFIT
async def test_an_answer_of_an_agent_that_does_not_fit_is_none_to_an_older_server(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    model = ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    agent = Decided(model=model, tools=[shop.open("legacy")])
    agent.answer = answer
    result = await agent.run("Go.")
    assert "There is no answer: nobody could be asked" in result_texts(result)[0]
    assert shop.sold == []
    assert "secret" not in caplog.text + result_texts(result)[0]


async def test_who_waits_is_told_which_answer_fits_what_waits() -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    policies = {"buy": ToolPolicy(requires_approval=True)}
    agent = Agent(name="buyer", model=model, tools=[shop.open(policies=policies)])
    with pytest.raises(ApprovalRequired, match=r": Approve\(\) or Deny\(reason\) or Ans") as first:
        await agent.run("Go.")
    approved = {first.value.paused.pending[0].id: Approve()}
    with pytest.raises(ApprovalRequired, match=r": Accept\(values\) or Deny\(reason\) or Ans"):
        await agent.resume(first.value.paused, approved)


async def test_a_tool_that_asks_in_the_old_way_is_told_of_once_with_what_helps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop, model = Shop(), ScriptedModel([[Call("shop__gossip"), Call("shop__gossip")], "Done."])
    agent = Decided(model=model, tools=[shop.open()])
    agent.answer = Accept({"colour": "red"})
    told = result_texts(await agent.run("Go."))
    assert all("protocol='legacy'" in each for each in told)
    assert caplog.text.count("protocol='legacy'") == 1
    agent = Decided(
        model=ScriptedModel([Call("shop__gossip"), "Done."]), tools=[shop.open("legacy")]
    )
    agent.answer = Accept({"colour": "red"})
    assert result_texts(await agent.run("Go.")) == ["heard accept"]


def test_values_are_json_and_stay_out_of_logs() -> None:
    assert Accept('{"a": 1}') == Accept({"a": 1})
    assert "secret" not in repr(Accept({"a": "secret"}))
    for wrong in ("[1]", "{", {"a": object()}, 3):
        with pytest.raises(ConfigurationError, match=r"Accept\(values\)"):
            Accept(wrong)  # type: ignore[arg-type]


async def test_approval_comes_first_and_its_arguments_stay() -> None:
    shop, model = Shop(), ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    policies = {"buy": ToolPolicy(requires_approval=True)}
    agent = Agent(name="buyer", model=model, tools=[shop.open(policies=policies)])
    first = await paused_by(agent)
    assert first.pending[0].question is None
    with pytest.raises(ConfigurationError, match="Approve"):
        await agent.resume(first, {first.pending[0].id: Accept({"size": "M"})})
    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume(first, {first.pending[0].id: Approve({"what": "shoes"})})
    second = caught.value.paused
    assert second.pending[0].question is not None
    result = await agent.resume(second, {second.pending[0].id: Accept({"size": "M"})})
    assert shop.sold == ["1 shoes of size M"]
    assert result_texts(result)[0].startswith("(A person has changed the arguments to")


async def test_a_question_waits_on_while_others_are_answered() -> None:
    shop = Shop()
    calls = [Call("shop__buy", {"what": what}) for what in ("hats", "shoes")]
    agent = Agent(name="buyer", model=ScriptedModel([calls, "Done."]), tools=[shop.open()])
    first = await paused_by(agent)
    hats, shoes = first.pending
    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume(first, {shoes.id: Accept({"size": "L"})})
    assert shop.sold == ["1 shoes of size L"]
    second = caught.value.paused
    assert [each.id for each in second.pending] == [hats.id]
    turn = second.runs[0].open_turn
    assert turn is not None
    assert turn.answers == {}  # what a person said is not kept once the server has it
    result = await agent.resume(second, {hats.id: Accept({"size": "S"})})
    assert result_texts(result) == ["sold 1 hats of size S", "sold 1 shoes of size L"]
    assert shop.sold == ["1 shoes of size L", "1 hats of size S"]


async def test_a_server_that_has_forgotten_its_question_is_asked_again_with_the_answer() -> None:
    """Its state holds for minutes, and for one life of its process; people take longer."""
    before, after = Shop(), Shop()
    model = ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    paused = await paused_by(Agent(name="buyer", model=model, tools=[before.open()]))
    result = await Agent(name="buyer", model=model, tools=[after.open()]).resume(
        paused, {paused.pending[0].id: Accept({"size": "M"})}
    )
    assert result_texts(result) == ["sold 1 hats of size M"]
    assert after.sold == ["1 hats of size M"]


async def test_a_paused_question_is_in_the_event_and_an_abandoned_one_says_so() -> None:
    shop, journal = Shop(), MemoryJournal()
    model = ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."])
    agent = Agent(name="buyer", model=model, tools=[shop.open()], journal=journal)
    async with agent.stream("Go.", run_id="r") as events:
        *_, last = [event_to_json(event) async for event in events]
    pending: Any = last["pending"]
    assert pending[0]["question"]["text"] == "Which size?"

    context = await agent.abandon("r")
    message = context.messages[-1]
    assert isinstance(message, ToolMessage)
    assert "asked a question that nobody answered" in message.results[0].content


@ERAS
async def test_a_question_is_answered_for_the_call_that_it_belongs_to(protocol: Any) -> None:
    """An old server's question names no call, so its calls are made one at a time."""

    class ByCall(Agent[None, str]):
        """You shop."""

        async def elicit(
            self, question: Question, context: ToolContext[Any]
        ) -> Accept | Deny | None:
            await asyncio.sleep(0)
            return Accept({"size": context.call_id[-1]})

    shop = Shop()
    calls = [Call("shop__buy", {"what": f"hat{i}"}) for i in range(1, 6)]
    agent = ByCall(model=ScriptedModel([calls, "Done."]), tools=[shop.open(protocol)])
    sold = [f"sold 1 hat{i} of size {i}" for i in range(1, 6)]
    assert result_texts(await agent.run("Go.")) == sold


def test_the_time_that_a_person_takes_is_not_the_calls() -> None:
    class Slow(Decided):
        """You shop."""

        async def elicit(
            self, question: Question, context: ToolContext[Any]
        ) -> Accept | Deny | None:
            await asyncio.sleep(0.3)
            return Accept({"size": "M"})

    shop = Shop()
    agent = Slow(
        model=ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."]),
        tools=[shop.open("legacy", call_timeout_s=0.2)],
    )
    assert result_texts(run_virtually(agent.run("Go."))) == ["sold 1 hats of size M"]


async def test_a_call_that_is_cancelled_takes_its_question_with_it() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    class Thoughtful(Agent[None, str]):
        """You shop."""

        async def elicit(
            self, question: Question, context: ToolContext[Any]
        ) -> Accept | Deny | None:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return None

    shop = Shop()
    async with Thoughtful(
        model=ScriptedModel([Call("shop__buy", {"what": "hats"}), "Done."]),
        tools=[shop.open("legacy")],
    ) as agent:
        run = asyncio.create_task(agent.run("Go."))
        await asyncio.wait_for(asked.wait(), 10)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.wait_for(ended.wait(), 10)
        assert shop.sold == []


async def test_a_url_is_shown_and_never_filled_in() -> None:
    from agentkit.toolset.mcp.calls.asking import Asking

    class Person:
        """Agrees to everything."""

        def __init__(self) -> None:
            self.asked: list[Question] = []

        async def ask(self, question: Question, *, kept: str | None) -> Accept:
            self.asked.append(question)
            return Accept()

    server = McpServer(alias="bank", command=["x"], elicits=True)
    person: Any = Person()
    asking = Asking(server, person)
    params = {"mode": "url", "message": "Sign in", "url": "https://bank.test/login"}
    assert await asking.answer("elicitation/create", params, kept=None) == {"action": "accept"}
    assert person.asked[0].url == "https://bank.test/login"
    assert person.asked[0].fields == {}

    for bad in ("javascript:alert(1)", "file:///etc/passwd", "", None, "data:text/html,x"):
        answer = await asking.answer("elicitation/create", {**params, "url": bad}, kept=None)
        assert answer == {"action": "decline"}
    assert len(person.asked) == 1
    assert "none of http or https" in asking.notes[0]


ODD: list[Mapping[str, Any]] = [
    {"message": "q"},
    {"message": "q", "requestedSchema": "no"},
    {
        "message": "q",
        "requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}},
    },
    {"message": "q", "requestedSchema": {"type": "object", "properties": {"a": "x"}}},
    {"message": "q", "requestedSchema": {"properties": {"a": {"$ref": "http://x/y"}}}},
    {"message": 5, "requestedSchema": {"properties": {f"f{i}": {} for i in range(200)}}},
]


@pytest.mark.parametrize("params", ODD)
async def test_a_form_that_is_none_is_declined_without_asking_anybody(
    params: Mapping[str, Any],
) -> None:
    from agentkit.toolset.mcp.calls.asking import Asking

    asking = Asking(McpServer(alias="bank", command=["x"], elicits=True), NOBODY)
    answer = await asking.answer("elicitation/create", params, kept=None)
    assert answer == {"action": "decline"}
    assert len(asking.notes) == 1
