"""An answer that breaks off wants to be paid for as soon as it had begun, whatever had arrived."""

from __future__ import annotations

import pytest

from agentkit import Agent, LimitReached, Limits
from agentkit.fake import Ask, Failure, Reply
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_that_broke_before_its_first_event_counts_against_the_limits(
    provider: str,
) -> None:
    world = HostedWorld(lambda ask: Reply(text="ok", breaks_at_byte=1), provider)
    agent = Agent(model=world.model, instructions="Be brief. " * 200)

    with pytest.raises(LimitReached, match="tokens=100 is reached"):
        world.run(lambda: agent.run("Hi.", limits=Limits(tokens=100)))

    assert len(world.fake.records) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_that_was_refused_counts_nothing(provider: str) -> None:
    replies: list[Reply | Failure] = [Reply(text="ok"), Failure(status=500, retry_after_s=0.0)]

    def says(ask: Ask) -> Reply | Failure:
        return replies.pop()

    world = HostedWorld(says, provider)
    agent = Agent(model=world.model, instructions="Be brief. " * 200)

    assert world.run(lambda: agent.run("Hi.", limits=Limits(tokens=100))).output == "ok"
