"""Requests as they were sent, small enough to read: for tests of comparisons and verdicts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from agentkit.blocks import AssistantMessage, Text, UserMessage
from agentkit.caching.difference import Sent
from agentkit.caching.plan.plan import CachePlan, PlacedMark, Prediction
from agentkit.caching.policy import InputSplit, Policy, Ttl, policy_for
from agentkit.caching.request import Block, CacheRequest, Identity, Message, Role
from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.wire import Layout, WireBlock
from agentkit.toolset import Toolset
from agentkit.usage import Usage

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)  # a Friday
ANTHROPIC = policy_for("anthropic", "claude-sonnet-5-5", NOON.date())

TOOLS = ("alpha", "beta")
ROLE = "You are a careful clerk."
TALK = ("hello", "hi, what can I do?", "count to three", "one two three", "thank you")


def piece(text: str, *, segment: int | None, n_tokens: int = 1_000) -> WireBlock:
    """A block of the wire."""
    data = json.dumps({"text": text}).encode()
    digest = hashlib.sha256(data).digest()
    return WireBlock(block=Block(digest=digest, n_tokens=n_tokens), data=data, segment=segment)


def sent(
    *,
    tools: Sequence[str] = TOOLS,
    role: str = ROLE,
    talk: Sequence[str] = TALK[:3],
    volatile: str | None = None,
    identity: Identity | None = None,
    policy: Policy = ANTHROPIC,
    sources: Mapping[int, str] | None = None,
    n_tokens: int = 1_000,
) -> Sent:
    """A request: each tool, the role, and each message is a block of `n_tokens`."""
    tool_list = ToolList(json.dumps([{"name": name} for name in tools]).encode())
    turns = [
        AssistantMessage((Text(text),)) if index % 2 else UserMessage.of(text)
        for index, text in enumerate(talk)
    ]
    context = Context(tool_list, SystemText(SystemPart.ROLE, role), *turns)
    tool_wire = [piece(name, segment=0, n_tokens=n_tokens) for name in tools]
    role_wire = piece(role, segment=1, n_tokens=n_tokens)
    talk_wire = [
        piece(text, segment=2 + index, n_tokens=n_tokens) for index, text in enumerate(talk)
    ]
    if volatile is not None:
        talk_wire.append(piece(volatile, segment=None, n_tokens=n_tokens))
    roles = [Role.ASSISTANT if index % 2 else Role.USER for index in range(len(talk_wire))]
    request = CacheRequest(
        identity=identity or Identity(model="claude-sonnet-5-5"),
        tools=tuple(wire.block for wire in tool_wire),
        system=(role_wire.block,),
        messages=tuple(
            Message(who, (wire.block,)) for who, wire in zip(roles, talk_wire, strict=True)
        ),
    )
    layout = Layout(
        blocks=(*tool_wire, role_wire, *talk_wire),
        cache_request=request,
        shared=(),
        n_volatile=0 if volatile is None else 1,
    )
    names = {context.segments[place].digest: line for place, line in (sources or {}).items()}
    asked = ModelRequest(
        context=context,
        toolset=Toolset(()),
        agent="clerk",
        run_id="run",
        request_id="request",
        sources=names,
    )
    found = Sent.of(layout, asked, policy)
    return replace(found, n_cached=found.n_stable)


def answered(request: Sent, *, tokens: int | None, life_s: float | None = 300) -> Sent:
    """The request as the next one remembers it: the cache keeps all of it but the volatile end."""
    return replace(request, cached_tokens=tokens, life_s=life_s)


def plan(
    read: int, write: int, uncached: int = 0, *, hit: int = 0, ttl: Ttl = Ttl.FIVE_MINUTES
) -> CachePlan:
    """A plan with one mark that expects these tokens."""
    writes = ((ttl, write),) if write else ()
    split = InputSplit(read=read, writes=writes, uncached=uncached)
    return CachePlan(
        marks=(PlacedMark(index=5, ttl=ttl),),
        predicted=Prediction(split=split, hit=hit, cost=None, uncached=None),
    )


def usage(read: int | None, write: int | None, uncached: int, output: int | None = 100) -> Usage:
    """The provider's counts, inclusive."""
    return Usage(
        input_tokens=(read or 0) + (write or 0) + uncached,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=None if write is None else 0,
        output_tokens=output,
    )
