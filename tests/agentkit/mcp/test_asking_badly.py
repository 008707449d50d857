"""An old server that asks at the wrong moment: nothing hangs, and nobody is asked in vain."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agentkit.toolset import McpServer
from agentkit.toolset.caller import Accept, Declined, Nobody, Question
from agentkit.toolset.mcp import McpConnection

SCRIPT = Path(__file__).parent / "servers" / "asking.py"


class Person(Nobody):
    """Answers when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked: list[str] = []
        self.n_ended = 0
        self.progress_seen: list[float] = []

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.progress_seen.append(done)

    async def ask(self, question: Question, *, kept: str | None) -> Accept | Declined:
        assert kept is None, "an old server cannot wait"
        self.asked.append(question.text)
        try:
            await self.may_answer.wait()
        finally:
            self.n_ended += 1
        return Accept({"size": 3})


@pytest.fixture
def person() -> Person:
    return Person()


def connect() -> McpConnection:
    command = [sys.executable, "-S", str(SCRIPT)]
    return McpServer(
        alias="a", command=command, protocol="legacy", elicits=True, call_timeout_s=20
    ).connect()


async def said(connection: McpConnection, name: str, person: Person) -> object:
    async with asyncio.timeout(20):
        output = await connection.call(name, {}, person)
    return json.loads(output.content)


async def test_a_question_of_a_call_is_answered_and_one_of_no_call_is_refused(
    person: Person,
) -> None:
    person.may_answer.set()
    async with connect() as connection:
        assert await said(connection, "ask", person) == {
            "action": "accept",
            "content": {"size": 3},
        }
        words = await said(connection, "last_words", person)
    assert isinstance(words, list)
    assert "no call is under way" in words[0]["message"]
    assert person.asked == ["Which?"]


async def test_a_server_that_dies_while_it_waits_for_an_answer_ends_call_and_question(
    person: Person,
) -> None:
    async with connect() as connection:
        async with asyncio.timeout(20):
            output = await connection.call("ask_and_die", {}, person)
        assert output.is_error
        assert "exit code 5" in output.content
        assert person.n_ended == len(person.asked)
        person.may_answer.set()
        assert await said(connection, "ask", person) == {
            "action": "accept",
            "content": {"size": 3},
        }


async def test_a_question_that_outlives_its_call_is_taken_back(person: Person) -> None:
    async with connect() as connection:
        assert await said(connection, "ask_and_answer", person) == "done without you"
        assert person.n_ended == len(person.asked)
        person.may_answer.set()
        assert await said(connection, "ask", person) == {
            "action": "accept",
            "content": {"size": 3},
        }


@pytest.mark.parametrize("name", ["ask_badly", "ask_what"])
async def test_a_request_that_is_none_is_an_error_for_the_server(name: str, person: Person) -> None:
    async with connect() as connection:
        answer = await said(connection, name, person)
    assert isinstance(answer, dict)
    assert answer["code"] < 0
    assert person.asked == []


async def test_nonsense_beside_a_call_does_not_harm_it(person: Person) -> None:
    async with connect() as connection:
        assert await said(connection, "log_junk", person) == "logged"
    assert set(person.progress_seen) <= {-1.0}


async def test_two_calls_of_a_server_that_may_ask_do_not_mix(person: Person) -> None:
    person.may_answer.set()
    async with connect() as connection:
        answers = await asyncio.gather(*(said(connection, "ask", person) for _ in range(5)))
    assert answers == [{"action": "accept", "content": {"size": 3}}] * 5
    assert len(person.asked) == 5
