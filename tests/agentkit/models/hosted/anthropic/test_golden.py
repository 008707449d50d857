"""The wire, byte for byte, as it is committed in tests/golden/wire/anthropic."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import respx

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import Ttl
from agentkit.context import Context
from agentkit.models.base import ModelRequest, Settings
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.anthropic.body import AnthropicBody
from tests.agentkit.models.hosted.anthropic.support import (
    LABEL,
    MODEL,
    URL,
    answer,
    as_the_sdk_types_it,
    ask,
    front,
    last_stable,
    marks_on_wire,
    on_wire,
    plan,
    stable_on_wire,
    streamed,
    text_block,
    tool,
)

FOLDER = Path(__file__).parents[4] / "golden" / "wire" / "anthropic"
OPTIONS = AnthropicOptions(thinking="adaptive", effort="high")


@dataclass(frozen=True)
class Case:
    name: str
    request: ModelRequest
    marks: tuple[Any, ...]
    """The last but one end, and the fronts; the end of the run is added."""


def cases() -> Iterator[Case]:
    """One run of several turns, as its requests follow each other."""
    image = Image.of_bytes(b"not really a PNG", "image/png")
    context = front().append(UserMessage.of("Where is the deadline? – Fällig am …", image))
    fronts = ((2, Ttl.ONE_HOUR), (4, Ttl.ONE_HOUR))
    yield Case("1_question_with_image", ask(context), fronts)

    calls = (
        ToolCall(id="toolu_01", name="search", arguments='{"query": "deadline",\t"n":1e2}'),
        ToolCall(id="toolu_02", name="read", arguments='{"path":"a.md"'),
        ToolCall(id="toolu_03", name="read", arguments=""),
    )
    context = context.append(
        AssistantMessage((Thinking("Search it first.", "c2ln+/=", LABEL), *calls)),
        ToolMessage(
            (
                ToolResult(call_id="toolu_01", name="search", content="a.md:3\nb.md:9"),
                ToolResult(
                    call_id="toolu_02", name="read", content="not valid JSON", is_error=True
                ),
                ToolResult(call_id="toolu_03", name="read", content="", attachments=(image,)),
            )
        ),
    )
    yield Case("2_parallel_calls_and_an_error", ask(context), (*fronts, 6))

    context = context.append(
        AssistantMessage(
            (
                VendorItem(source=LABEL, data='{"type":"redacted_thinking","data":"cmVk"}'),
                Text("I read the second."),
                ToolCall(id="toolu_01", name="read", arguments='{"path":"b.md"}'),
            )
        ),
        ToolMessage((ToolResult(call_id="toolu_01", name="read", content="due 1 May"),)),
    )
    masked = ask(
        context.with_volatile("It is 09:01.\nTwo calls are left."),
        allowed_tools=frozenset(["read"]),
        settings=Settings(max_tokens=500),
    )
    yield Case("3_mask_and_an_id_that_comes_again", masked, (*fronts, 13))

    paper = File.of_bytes(b"%PDF-1.7", "application/pdf", name="c.pdf")
    foreign = Thinking("of another vendor", "s", "openai:gpt-6-sol")
    context = context.append(
        AssistantMessage((foreign, Text("On 1 May."))),
        UserMessage.of("And here?", paper, Text("Answer in one word.", "5m")),
    )
    yield Case("4_resumed_with_a_document", ask(Context.load(context.dump())), (*fronts, 17))

    found = tool("translate", text={"type": "string"}, language={"enum": ["de", "fr"]})
    drawn = tool("draw", path={"type": "string"})
    context = context.append(
        AssistantMessage((Text("Maybe."),)),
        UserMessage.of("Translate it."),
        ToolsMessage((found.spec.bytes.decode(), drawn.spec.bytes.decode())),
    )
    later = ask(context.with_volatile("It is 09:02."), tools_may_come=True)
    yield Case("5_tools_that_came_behind_volatile_text", later, (*fronts, 18))

    calls = (ToolCall(id="toolu_09", name="translate", arguments='{"text":"due"}'),)
    context = context.append(
        AssistantMessage(calls),
        ToolMessage((ToolResult(call_id="toolu_09", name="translate", content="fällig"),)),
    )
    yield Case("6_one_of_them_was_called", ask(context, tools_may_come=True), (*fronts, 22))


def body_of(case: Case, adapter: AnthropicAdapter) -> tuple[AnthropicBody, CachePlan]:
    layout = adapter.layout(case.request)
    marked = plan(*case.marks, last_stable(layout))
    return adapter.body(layout, marked, case.request), marked


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_requests_are_the_committed_bytes(case: Case) -> None:
    data = body_of(case, AnthropicAdapter(MODEL, options=OPTIONS))[0].data
    path = FOLDER / f"{case.name}.json"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_bytes(data)
    assert data == path.read_bytes()


def test_each_extends_the_one_before_in_cache_order() -> None:
    adapter = AnthropicAdapter(MODEL, options=OPTIONS)
    before: list[tuple[str, str]] = []
    for case in cases():
        data = (FOLDER / f"{case.name}.json").read_bytes()
        layout = adapter.layout(case.request)
        pieces = stable_on_wire(data, layout)
        assert pieces[: len(before)] == before
        assert len(pieces) > len(before)
        assert all(index < len(pieces) for index in marks_on_wire(data)), "none on volatile text"
        assert 3 <= len(marks_on_wire(data)) <= 4
        json.loads(data)
        before = pieces
    assert len(list(FOLDER.glob("*.json"))) == len(list(cases())), "no file is left over"


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_the_official_client_has_a_type_for_every_field(case: Case) -> None:
    data = (FOLDER / f"{case.name}.json").read_bytes()
    is_beta = b"tool_addition" in data
    assert as_the_sdk_types_it(data, beta=is_beta) == json.loads(data)
    if b'"signature"' in data:
        marked = data.replace(b'"signature"', b'"cache_control":{"type":"ephemeral"},"signature"')
        assert as_the_sdk_types_it(marked, beta=is_beta) != json.loads(marked), "it can fail"


async def test_the_official_client_sends_the_committed_bytes(
    make_adapter: Callable[..., AnthropicAdapter], httpx2_mock: respx.Router
) -> None:
    route = httpx2_mock.post(URL).mock(side_effect=lambda _: streamed(answer(text_block(0, "ok"))))
    adapter = make_adapter(options=OPTIONS)
    for case in cases():
        async for _ in adapter.stream(body_of(case, adapter)[0]):
            pass
        golden = (FOLDER / f"{case.name}.json").read_bytes()
        assert route.calls.last.request.content == golden
        assert on_wire(golden)
