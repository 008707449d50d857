"""How a request lies on the local runtime's wire."""

from __future__ import annotations

import dataclasses
import random

import pytest

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
)
from agentkit.context import Context, Document, SystemPart, SystemText, ToolList
from agentkit.context.segment import Content
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest, Settings, ToolName
from agentkit.models.local import encode, wire
from agentkit.models.own.encoding import Encoder
from agentkit.testing import assert_extends
from agentkit.toolset import Toolset, tool
from agentkit_runtime import chat
from agentkit_runtime.types import SamplingParams


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


TOOLSET = Toolset([add])
RULES = SystemText(SystemPart.RULES, "Be honest.")
ROLE = SystemText(SystemPart.ROLE, "You add.")
EXAMPLES = SystemText(SystemPart.EXAMPLES, "Q A")
FRONT = (RULES, ToolList(TOOLSET.bytes), ROLE, EXAMPLES, Document(uri='a"b', text="one\n"))
ARGUMENTS = '{ "b":2,"a" : 1 }'
HISTORY: tuple[Content, ...] = (
    UserMessage.of("1+2?"),
    AssistantMessage(
        (Thinking("hm", "sig"), Text("ok"), ToolCall(id="c1", name="add", arguments=ARGUMENTS))
    ),
    ToolMessage((ToolResult(call_id="c1", name="add", content="3"),)),
    AssistantMessage((ToolCall(id="c2", name="sub", arguments="{}"),)),
    ToolMessage((ToolResult(call_id="c2", name="sub", content="no such tool", is_error=True),)),
)
ADDED = (ToolsMessage((subtract.spec.bytes.decode(),)),)


def request(context: Context, toolset: Toolset = TOOLSET, /, **changes: object) -> ModelRequest:
    made = ModelRequest(context=context, toolset=toolset, agent="a", run_id="r", request_id="r-0-0")
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_rules_and_tools_lead_then_the_role_then_history_then_volatile_text() -> None:
    context = Context(*FRONT, *HISTORY).with_volatile("It is noon.")

    encoded = encode(request(context))

    assert [(m.role, m.content) for m in encoded.messages] == [
        ("system", "Be honest."),
        ("system", 'You add.\n\nQ A\n\n<document uri="a\\"b">\none\n\n</document>'),
        ("user", "1+2?"),
        ("assistant", "ok"),
        ("tool", "3"),
        ("assistant", ""),
        ("tool", "Error: no such tool"),
        ("user", "It is noon."),
    ]
    assert encoded.messages[3].tool_calls == (
        chat.ChatToolCall(id="c1", name="add", arguments=ARGUMENTS),
    )
    assert encoded.messages[4].tool_call_id == "c1"
    assert [tool.name for tool in encoded.tools] == ["add"]


def test_tools_stand_before_the_role_also_without_rules() -> None:
    encoded = encode(request(Context(*FRONT[1:3])))

    assert [message.content for message in encoded.messages] == ["", "You add."]


def test_without_rules_and_tools_the_role_comes_first() -> None:
    encoded = encode(request(Context(ROLE), Toolset()))

    assert [message.content for message in encoded.messages] == ["You add."]


@pytest.mark.parametrize(
    "steering",
    [
        {"tool_choice": "required"},
        {"tool_choice": ToolName("add"), "allowed_tools": frozenset({"add"})},
        {"allowed_tools": frozenset()},
        {"output_schema": {"type": "object"}},
        {"settings": Settings(temperature=1.0, top_k=3, top_p=0.5, seed=1, stop=("x",))},
        {"request_id": "other", "run_id": "other", "agent": "other"},
    ],
)
def test_nothing_that_steers_one_answer_touches_the_prefix(steering: dict[str, object]) -> None:
    """Regression elsewhere (C67): a forced choice narrowed the tool list, and everything missed."""
    plain = request(Context(*FRONT, *HISTORY))
    steered = request(Context(*FRONT, *HISTORY), **steering)

    assert encode(steered) != encode(plain)
    assert encode(steered).messages == encode(plain).messages
    assert encode(steered).tools == encode(plain).tools
    assert wire(steered) == wire(plain)


def test_an_empty_mask_means_that_no_tool_is_called() -> None:
    encoded = encode(request(Context(*FRONT), allowed_tools=frozenset()))

    assert encoded.tool_choice == "none"


def test_settings_are_passed_on_and_default_to_greedy() -> None:
    settings = Settings(temperature=0.5, top_k=3, top_p=0.9, seed=7, max_tokens=10, stop=("x",))

    assert encode(request(Context(), settings=settings)).sampling == SamplingParams(
        temperature=0.5, top_k=3, top_p=0.9, seed=7, max_tokens=10, stop=("x",)
    )
    assert encode(request(Context())).sampling == SamplingParams()


def test_each_longer_context_extends_the_wire_and_volatile_text_is_no_part_of_it() -> None:
    before = wire(request(Context(*FRONT)))
    for length in range(1, len(HISTORY) + 1):
        contents = HISTORY[:length]
        if isinstance(contents[-1], AssistantMessage) and contents[-1].calls:
            continue
        context = Context(*FRONT, *contents)
        assert wire(request(context)) == wire(request(context.with_volatile(f"now {length}")))
        assert_extends(before, wire(request(context)))
        before = wire(request(context))


def test_encoding_is_pure() -> None:
    asked = request(Context(*FRONT, *HISTORY))

    assert encode(asked) == encode(asked)


@pytest.mark.parametrize(
    "message",
    [
        UserMessage.of("Look.", Image.of_bytes(b"png", "image/png")),
        UserMessage.of(File.of_bytes(b"pdf", "application/pdf", name="a.pdf")),
    ],
)
def test_what_the_runtime_cannot_read_is_refused_and_never_left_out(message: UserMessage) -> None:
    request = ModelRequest(
        context=Context(*FRONT, message),
        toolset=TOOLSET,
        agent="a",
        run_id="r",
        request_id="1",
    )

    with pytest.raises(RequestRefused, match="reads text only"):
        encode(request)


# -- what was encoded before is not encoded again --------------------------------------------------


def test_a_longer_context_has_the_very_messages_of_the_shorter_one() -> None:
    encoder, context = Encoder(), Context(*FRONT, *HISTORY[:3])
    before = encoder.encode(request(context.with_volatile("now")))

    after = encoder.encode(request(context.append(*HISTORY[3:])))

    assert len(after.messages) == len(before.messages) + 1  # two more, and no volatile text
    for earlier, later in zip(before.messages[:-1], after.messages, strict=False):
        assert later is earlier
    assert after.tools is before.tools


def test_what_an_encoder_has_seen_changes_nothing() -> None:
    """Forks, edits, volatile text, warm-ups, tools that come or go: as if encoded alone."""
    encoder, rng, other = Encoder(), random.Random(7), Toolset([add, subtract])
    fronts = [FRONT[:1], FRONT[:2], FRONT[:3], FRONT, FRONT[2:], ()]
    fronts += [(*FRONT, Document(uri="b", text="two")), (RULES, ROLE)]
    asked = list[ModelRequest]()
    for _ in range(300):
        context = Context(*rng.choice(fronts))
        if asked and rng.random() < 0.6:  # a fork of an earlier one
            context = rng.choice(asked).context.fork()
        for _ in range(rng.randrange(3)):
            parts = [HISTORY[:1], HISTORY[1:3], HISTORY[3:]]
            parts += [] if context.later_tools else [ADDED]  # they come once
            context = context.append(*rng.choice(parts))
        toolset = rng.choice([TOOLSET, other, Toolset()])
        volatile = rng.choice([None, "now"])
        asked.append(request(context.with_volatile(volatile), toolset))

        assert encoder.encode(asked[-1]) == encode(asked[-1])
        assert encoder.encode(asked[-1]) == encode(asked[-1])
    assert len({each.context.digest for each in asked}) > 50


def test_what_was_refused_is_refused_again_and_hinders_nothing() -> None:
    encoder, image = Encoder(), UserMessage.of(Image.of_bytes(b"png", "image/png"))
    context = Context(*FRONT, *HISTORY)
    encoder.encode(request(context))

    for _ in range(2):
        with pytest.raises(RequestRefused, match="reads text only"):
            encoder.encode(request(context.append(image)))

    longer = request(context.append(UserMessage.of("Go on.")))
    assert encoder.encode(longer) == encode(longer)
