"""A run of made-up turns: requests that grow as those of a real run do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentkit.blocks import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.caching.tokens import BYTES_PER_TOKEN
from agentkit.models.base import ModelRequest
from agentkit.state import RunState
from agentkit.team.members import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How long things are, in tokens and seconds."""

    turns: int = 10
    prompt_tokens: int = 100
    reply_tokens: int = 150
    result_tokens: int = 500
    gap_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The requests of a run."""

    requests: tuple[ModelRequest, ...]
    notes: tuple[str, ...]


def script(member: Member, sizes: Sizes, path: tuple[str, ...] = ()) -> Script:
    """Return the requests of a run in which each turn calls a tool, or only talks, without tools.

    What the agent's own methods say of a turn is asked; where they fail, it is left out. `path` is
    that of a subagent, from the root's name on.
    """
    run = RunState(member=member, context=member.front, path=path or (member.name,), run_id="plan")
    run.context = run.context.append(UserMessage.of(_text("question", sizes.prompt_tokens)))
    notes: dict[str, None] = {}
    requests = []
    for turn in range(sizes.turns):
        requests.append(_request(member, run, turn, lambda note: notes.setdefault(note)))
        run.context = run.context.append(*_turn(member, turn, sizes))
    return Script(requests=tuple(requests), notes=tuple(notes))


def _request(member: Member, run: RunState, turn: int, note: Callable[[str], None]) -> ModelRequest:
    try:
        return member.request(run, turn, 0)
    except Exception as error:
        # The app's own code, which may need what only a real run has.
        note(
            f"volatile text, masks and choices are left out, because a method of "
            f"{member.name!r} failed: {error!r}"
        )
    return ModelRequest(
        context=run.context,
        toolset=member.toolset,
        output_schema=member.output.schema,
        settings=member.agent.settings,
        agent=member.name,
        run_id=run.run_id,
        request_id=f"plan-{turn}",
        session=run.session,
        tenant=member.tenant,
        sources=member.sources,
    )


def _turn(
    member: Member, turn: int, sizes: Sizes
) -> Iterator[AssistantMessage | ToolMessage | UserMessage]:
    name = min(member.own_tools, default=None)
    if name is None:
        yield AssistantMessage((Text(_text(f"reply {turn}", sizes.reply_tokens)),))
        yield UserMessage.of(_text(f"question {turn + 1}", sizes.result_tokens))
        return
    arguments = json.dumps({"text": _text(f"call {turn}", sizes.reply_tokens)})
    call = ToolCall(id=f"call_{turn}", name=name, arguments=arguments)
    result = _text(f"result {turn}", sizes.result_tokens)
    yield AssistantMessage((call,))
    yield ToolMessage((ToolResult(call_id=call.id, name=name, content=result),))


def _text(start: str, n_tokens: int) -> str:
    return (start + " " + "word " * n_tokens)[: n_tokens * BYTES_PER_TOKEN]
