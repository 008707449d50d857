"""`agentkit plan`: what an agent's prompts will cost at each provider, before any is sent.

load.py       from `my_app:MyAgent` to a team; turns.py: a run of made-up turns
providers.py  the models; forecast.py: goes through the runs
simulated.py  lays out, plans and serves one request; segments.py: what it is made of
rows.py       a forecast as data; render.py: as text and as JSON
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from agentkit.cli.failures import fail, failures_as_exit_codes


def plan(
    agent: Annotated[
        str,
        typer.Argument(
            help="Where the agent is: my_app:MyAgent, my_app:agent, or my_app:make_agent."
        ),
    ],
    provider: Annotated[
        list[str] | None,
        typer.Option(
            help="A provider, or provider:model, or several with commas between them; can be "
            "repeated. `all` is every provider that we know. Without it: the agent's own, "
            "Anthropic, OpenAI, DeepSeek and Gemini."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="Connect the MCP servers, to know their tools.")
    ] = False,
    turns: Annotated[int, typer.Option(min=1, max=1_000, help="Turns of the run.")] = 10,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of what the user asks.")] = 100,
    reply_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of each of the model's turns.")
    ] = 150,
    result_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each tool's result.")] = 500,
    gap: Annotated[float, typer.Option(min=0, help="Seconds from one request to the next.")] = 30.0,
) -> None:
    """Say how an agent's prompts are laid out and cached, and what its first and tenth turn cost.

    Nothing is sent. Tokens are estimates; turns after the first are made up, of the given sizes.
    """
    from agentkit.cli.plan.forecast import forecasts
    from agentkit.cli.plan.load import load_agent, team_of
    from agentkit.cli.plan.providers import models_for
    from agentkit.cli.plan.render import to_json, to_text
    from agentkit.cli.plan.turns import Sizes

    with failures_as_exit_codes():
        loaded = load_agent(agent)
        models = models_for(provider or [], loaded)
        sizes = Sizes(
            turns=turns,
            prompt_tokens=prompt_tokens,
            reply_tokens=reply_tokens,
            result_tokens=result_tokens,
            gap_s=gap,
        )
        planned = asyncio.run(team_of(loaded, connect=connect))
        found = forecasts(planned, models, sizes)
        if as_json:
            typer.echo(json.dumps(to_json(planned, found, sizes), indent=2))
        else:
            typer.echo(to_text(planned, found, sizes))
        if all(each.error is not None for each in found):
            fail("no provider can take this agent's request")
