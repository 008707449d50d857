"""Contexts on a simulated wire: pieces in the provider's cache order, and what a cache reads."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from agentkit.blocks import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, CacheRequest, Identity, Mark, Message, Role
from agentkit.caching.simulate import ManualClock, Refused, Served, SimulatedAnthropic
from agentkit.caching.tokens import data_tokens
from agentkit.context import Context, Segment, SystemPart, SystemText, Tier, ToolList

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
KINDS = {"tool": BlockKind.TOOL_RESULT}
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Cache:
    """Anthropic's cache behind contexts, with marks at the end of the front and of the history."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self._cache = SimulatedAnthropic(clock=self.clock)

        self.spent = Decimal(0)

    def ask(self, context: Context, *, tool_choice: str = "auto", output_tokens: int = 0) -> Served:
        request = _request(context, tool_choice)
        served = self._cache.request(request, output_tokens=output_tokens)
        assert not isinstance(served, Refused), served
        assert served.cost is not None
        self.spent += served.cost.total
        return served


def make_conversation(
    n_turns: int, result_bytes: int = 4_000, front_bytes: int = 20_000
) -> Context:
    context = Context(
        SystemText(SystemPart.RULES, "Be honest. " * (front_bytes // 22)),
        ToolList(b'[{"description":"Read a file.","name":"read","parameters":{}}]'),
        SystemText(SystemPart.ROLE, "You read files. " * (front_bytes // 32)),
        UserMessage.of("Read all files, and say what they have in common."),
    )
    for index in range(n_turns):
        context = with_turn(context, f"c{index}", "x" * result_bytes)
    return context


def with_turn(context: Context, call_id: str, content: str) -> Context:
    call = ToolCall(id=call_id, name="read", arguments='{ "n":1 }')
    return context.append(
        AssistantMessage((Text("Next."), call)),
        ToolMessage((ToolResult(call_id=call_id, name="read", content=content),)),
    )


def _request(context: Context, tool_choice: str) -> CacheRequest:
    by_tier: dict[Tier, list[Segment]] = {}
    for segment in context:
        by_tier.setdefault(segment.tier, []).append(segment)
    front = [*by_tier.get(Tier.SYSTEM, []), *by_tier.get(Tier.KNOWLEDGE, [])]
    history = by_tier.get(Tier.HISTORY, [])
    return CacheRequest(
        identity=Identity(model="claude-sonnet-5-5", tool_choice=tool_choice),
        tools=tuple(_block(each, BlockKind.TOOL) for each in by_tier.get(Tier.TOOLS, [])),
        system=tuple(_block(each, marked=each is front[-1]) for each in front),
        messages=tuple(
            Message(
                ROLES[each.content.kind],  # type: ignore[union-attr]
                (
                    _block(
                        each,
                        KINDS.get(each.content.kind, BlockKind.TEXT),  # type: ignore[union-attr]
                        marked=each is history[-1],
                    ),
                ),
            )
            for each in history
        ),
    )


def _block(segment: Segment, kind: BlockKind = BlockKind.TEXT, *, marked: bool = False) -> Block:
    return Block(
        kind=kind,
        digest=segment.digest.encode(),
        n_tokens=data_tokens(segment.data),
        mark=Mark() if marked else None,
    )
