"""One conversation at every provider: nobody sees another's fields, all cut it at one place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit.blocks import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import Ttl, policy_for
from agentkit.context import Context, Document, SystemPart, SystemText, ToolList
from agentkit.context.segment import Content
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.openai_chat import ChatAdapter
from agentkit.models.hosted.openai_chat.profiles import DEEPSEEK, OPENAI, OPENROUTER, VLLM
from agentkit.models.hosted.openai_common import LostMarkWarning
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Layout
from agentkit.toolset import Toolset, tool

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@tool
def look(path: str) -> str:
    """Look at a picture."""
    return path


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


TOOLSET = Toolset([look, add])
FRONT: tuple[Content, ...] = (
    SystemText(SystemPart.RULES, "Be honest. " * 800),
    ToolList(TOOLSET.bytes),
    SystemText(SystemPart.ROLE, "You look and add."),
    Document(uri="long.md", text="word " * 9_000),
)


@dataclass(frozen=True)
class Vendor:
    """An API, what only it may send, and what its own model left behind in the conversation."""

    name: str
    adapter: Any
    family: str
    takes_images: bool = True
    has_marks: bool = True


VENDORS = (
    Vendor("anthropic", AnthropicAdapter("claude-sonnet-5-5"), "anthropic"),
    Vendor("responses", ResponsesAdapter("gpt-6.2-sol"), "responses"),
    Vendor("chat", ChatAdapter("gpt-6.2-sol", profile=OPENAI), "chat"),
    Vendor(
        "deepseek",
        ChatAdapter("deepseek-chat", profile=DEEPSEEK),
        "deepseek",
        takes_images=False,
        has_marks=False,
    ),
    Vendor(
        "openrouter",
        ChatAdapter("anthropic/claude-sonnet-5-5", profile=OPENROUTER),
        "openrouter",
    ),
    Vendor("vllm", ChatAdapter("m", profile=VLLM, base_url="http://x"), "vllm", has_marks=False),
    Vendor("gemini", GeminiAdapter("gemini-3.8-flash"), "gemini", has_marks=False),
)

MARKING = [vendor for vendor in VENDORS if vendor.has_marks]

FIELDS = {
    "cache_control": {"anthropic", "openrouter"},
    "tool_use_id": {"anthropic"},
    "prompt_cache_breakpoint": {"responses", "chat"},
    "prompt_cache_options": {"responses", "chat"},
    "prompt_cache_key": {"responses", "chat"},
    "encrypted_content": {"responses"},
    "call_id": {"responses"},
    "tool_call_id": {"chat", "deepseek", "openrouter", "vllm"},
    "reasoning_content": {"deepseek"},
    "reasoning_details": {"openrouter"},
    "thoughtSignature": {"gemini"},
    "functionCall": {"gemini"},
    "parametersJsonSchema": {"gemini"},
    "cachedContent": {"gemini"},
}
"""Field names of the wire, and the APIs that have them."""

SECRETS = {
    "anthropic": "c2VjcmV0LWFudGhyb3BpYw==",
    "responses": "c2VjcmV0LW9wZW5haQ==",
    "gemini": "c2VjcmV0LWdlbWluaQ==",
}
"""What each vendor's model signed."""


def turn_of(name: str, call_id: str) -> tuple[Content, ...]:
    """A turn of a vendor's model: it thinks, says something, calls two tools; one fails."""
    signed: dict[str, tuple[Any, ...]] = {
        "anthropic": (
            Thinking("mine-anthropic", SECRETS["anthropic"], "anthropic:claude-sonnet-5-5"),
        ),
        "responses": (
            VendorItem(
                source="openai:gpt-6.2-sol",
                data=json.dumps(
                    {
                        "type": "reasoning",
                        "id": "rs_1",
                        "summary": [],
                        "encrypted_content": SECRETS["responses"],
                    }
                ),
            ),
        ),
        "gemini": (
            Thinking("mine-gemini", None, "gemini:gemini-3.8-flash"),
            VendorItem(
                source="gemini:gemini-3.8-flash",
                data=json.dumps({"thoughtSignature": SECRETS["gemini"]}),
            ),
        ),
    }
    first, second = f"{call_id}a", f"{call_id}b"
    calls = (
        ToolCall(id=first, name="look", arguments='{"path": "a.png"}'),
        ToolCall(id=second, name="add", arguments='{"b":2,"a":1}'),
    )
    image = Image(media_type="image/png", data="iVBORw0KGgo=", width=100, height=100)
    results = (
        ToolResult(call_id=first, name="look", content="a boat", attachments=(image,)),
        ToolResult(call_id=second, name="add", content="it failed", is_error=True),
    )
    return (
        AssistantMessage((Text("Looking. "), *signed[name], *calls)),
        ToolMessage(results),
    )


def conversation(*, images: bool) -> Context:
    """Three vendors' models took part in it, one after the other."""
    seen = (Image(media_type="image/png", data="iVBORw0KGgo="),) if images else ()
    history: list[Content] = [UserMessage.of("What is in it?", *seen)]
    for index, name in enumerate(SECRETS):
        turn, results = turn_of(name, f"callno{index}")
        history += [turn, results if images else _without_attachments(results)]
    return Context(*FRONT, *history, UserMessage.of("And now?"))


def request(context: Context) -> ModelRequest:
    return ModelRequest(
        context=context, toolset=TOOLSET, agent="a", run_id="r", request_id="r-0-0", tenant="t"
    )


def planned(vendor: Vendor, context: Context) -> tuple[Layout, CachePlan, bytes]:
    wanted = request(context)
    layout = vendor.adapter.layout(wanted)
    policy = policy_for(vendor.adapter.provider, vendor.adapter.model, NOW.date())
    draft = Draft(
        request=layout.cache_request,
        shared=layout.shared,
        n_volatile=layout.n_volatile,
        session="s",
        tenant="t",
    )
    made = plan(draft, policy, Written(), NOW)
    return layout, made, vendor.adapter.body(layout, made, wanted).data


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    found: Vendor = request.param
    return found


def test_no_vendors_field_is_in_anothers_bytes(vendor: Vendor) -> None:
    """C85: after a fallback the next vendor gets no field of the one before."""
    _, _, data = planned(vendor, conversation(images=vendor.takes_images))

    names = _field_names(json.loads(data))
    for field, families in FIELDS.items():
        assert field not in names or vendor.family in families, field


def test_what_a_model_signed_goes_to_its_own_vendor_and_to_no_other(vendor: Vendor) -> None:
    """C85: signatures and encrypted reasoning of another vendor make a request fail."""
    _, _, data = planned(vendor, conversation(images=vendor.takes_images))

    for name, secret in SECRETS.items():
        assert (secret.encode() in data) is (name == vendor.family), name
    for name in ("anthropic", "gemini"):
        assert (f"mine-{name}".encode() in data) is (name == vendor.family), name


def test_all_that_was_said_called_and_answered_is_at_every_vendor(vendor: Vendor) -> None:
    _, _, data = planned(vendor, conversation(images=vendor.takes_images))

    assert data.count(b"Looking. ") == 3
    assert data.count(b"a boat") == 3
    assert data.count(b"it failed") == 3
    assert data.count(rb"a.png") == 3
    assert (b"iVBORw0KGgo=" in data) is vendor.takes_images


@pytest.mark.parametrize("vendor", MARKING, ids=lambda vendor: vendor.name)
def test_marks_are_at_the_same_places_of_the_conversation(vendor: Vendor) -> None:
    """C29: whatever the shape of an API's messages, the marks mean the same."""
    layout, made, _ = planned(vendor, conversation(images=True).with_volatile("It is noon."))

    marked = [layout.blocks[mark.index].segment for mark in made.marks]

    # The rules, the agent's documents, the end of the last request, the end of this one.
    assert marked == [0, 3, 8, 11]


def test_what_others_share_ends_at_the_same_places_everywhere(vendor: Vendor) -> None:
    """C29: the ends that marks, keys and objects are planned by do not depend on the API."""
    context = conversation(images=vendor.takes_images).with_volatile("It is noon.")
    layout = vendor.adapter.layout(request(context))

    ends = [(each.by.value, layout.blocks[each.end - 1].segment) for each in layout.shared]

    assert ends == [
        ("organization", 0),
        ("agent", 3),
        ("run", 4),
        ("run", 6),
        ("run", 8),
        ("run", 11),
    ]


@pytest.mark.parametrize("vendor", MARKING, ids=lambda vendor: vendor.name)
def test_a_mark_of_the_user_is_on_the_same_block_wherever_there_are_marks(vendor: Vendor) -> None:
    """C29: a mark by hand is neither lost nor moved."""
    long = Text("Remember this. " * 1_000, breakpoint="1h")
    context = Context(*FRONT, UserMessage((long, Text("And answer.")))).with_volatile("noon")

    layout, made, data = planned(vendor, context)

    (mark,) = [mark for mark in made.marks if mark.by_user]
    assert layout.blocks[mark.index].segment == 4
    assert b"Remember this." in layout.blocks[mark.index].data
    assert mark.ttl is not Ttl.FIVE_MINUTES
    marker = b"cache_control" if b"cache_control" in data else b"prompt_cache_breakpoint"
    part = data[data.index(b"Remember this.") : data.index(b"And answer.")]
    assert marker in part


def test_where_there_are_no_marks_a_mark_of_the_user_is_warned_of_and_left_out() -> None:
    """C29: what does nothing is not left out silently."""
    vendor = Vendor("gemini", GeminiAdapter("gemini-3.8-flash"), "gemini")
    marked = Context(*FRONT, UserMessage((Text("Hello.", breakpoint="5m"),)))
    plain = Context(*FRONT, UserMessage.of("Hello."))

    with pytest.warns(LostMarkWarning, match="no cache marks"):
        _, _, data = planned(vendor, marked)

    assert data == planned(vendor, plain)[2]


def test_each_request_extends_the_one_before_at_every_vendor(vendor: Vendor) -> None:
    """C85: also when the turns before were another vendor's."""
    context = conversation(images=vendor.takes_images)
    earlier: tuple[bytes, ...] = ()
    for n_segments in range(len(FRONT) + 1, len(context) + 1):
        contents = [segment.content for segment in context.segments[:n_segments]]
        if Context(*contents).open_calls:
            continue
        layout = vendor.adapter.layout(request(Context(*contents).with_volatile(f"{n_segments}")))
        assert layout.stable[: len(earlier)] == earlier
        assert len(layout.stable) > len(earlier)
        earlier = layout.stable


def _without_attachments(message: Content) -> Content:
    assert isinstance(message, ToolMessage)
    return ToolMessage(
        tuple(
            ToolResult(
                call_id=each.call_id, name=each.name, content=each.content, is_error=each.is_error
            )
            for each in message.results
        )
    )


def _field_names(value: Any) -> set[str]:
    """All keys of a body, but those inside a tool's schema or arguments."""
    if isinstance(value, list):
        return {name for member in value for name in _field_names(member)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {name for member in value.values() for name in _field_names(member)}
