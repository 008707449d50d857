"""What the Anthropic dialect cannot honour is refused, and the message names the field."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_runtime.api.anthropic.decode import Decoded, decode
from agentkit_runtime.api.anthropic.errors import error_body
from agentkit_runtime.api.anthropic.request import MessagesBody
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ToolName
from tests.runtime.api.anthropic.cases import (
    EPHEMERAL,
    HOUR,
    SCHEMA,
    TIME,
    WEATHER,
    assistant,
    call,
    result,
    text,
    user,
)


class Plain:
    """A model that does not think."""

    thinks = False

    def template_has(self, option: str) -> bool:
        return False


class Thinking:
    """One that does; with a switch or without."""

    thinks = True

    def __init__(self, *switches: str) -> None:
        self._switches = switches

    def template_has(self, option: str) -> bool:
        return option in self._switches


def decoded(model: Any = None, **more: Any) -> Decoded:
    body = {"model": "m", "max_tokens": 10, "messages": [user("hello")], **more}
    return decode(MessagesBody.model_validate(body), model or Plain(), request_id="msg_1")


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "a/pdf", "data": "aa"}}
DOCUMENT_OF_NUMBERS = {"type": "document", "source": {"type": "content", "content": [{"n": 1}]}}
CALLED = [user("Hi"), assistant(call("t1", "Oslo", 1))]
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
JSON = {"format": {"type": "json_schema", "schema": SCHEMA}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "OpenAI's stop strings": ({"stop": ["x"]}, "stop"),
    "an image": ({"messages": [user(text("a"), IMAGE)]}, "messages[0].content[1].type"),
    "a PDF": ({"messages": [user(PDF)]}, "messages[0].content[0].source.type"),
    "a document of what is no block": (
        {"messages": [user(DOCUMENT_OF_NUMBERS)]},
        "messages[0].content[0].source.content[0]",
    ),
    "an image as a result": (
        {"messages": [*CALLED, user(result("t1", [IMAGE]))]},
        "messages[2].content[0].content[0].type",
    ),
    "a search result": (
        {"messages": [user({"type": "search_result", "source": "u", "title": "t", "content": []})]},
        "messages[0].content[0].type",
    ),
    "an upload": (
        {"messages": [user({"type": "container_upload"})]},
        "messages[0].content[0].type",
    ),
    "a text block without text": (
        {"messages": [user({"type": "text"})]},
        "messages[0].content[0].text",
    ),
    "an empty message": ({"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
    "a message without blocks": (
        {"messages": [{"role": "user", "content": []}]},
        "messages[0].content",
    ),
    "a call without a result": (
        {"messages": [*CALLED, user("go on")]},
        "messages[1].content[0]",
    ),
    "a call at the end": ({"messages": CALLED}, "messages[1].content[0]"),
    "a result without a call": (
        {"messages": [*CALLED, user(result("t1", "a"), result("t2", "a"))]},
        "messages[2].content[1].tool_use_id",
    ),
    "a result twice": (
        {"messages": [*CALLED, user(result("t1", "a"), result("t1", "a"))]},
        "messages[2].content[1].tool_use_id",
    ),
    "a result of an earlier turn": (
        {"messages": [*CALLED, user(result("t1", "a")), assistant("b"), user(result("t1", "a"))]},
        "messages[4].content[0].tool_use_id",
    ),
    "a result behind a text": (
        {"messages": [*CALLED, user(text("see:"), result("t1", "a"))]},
        "messages[2].content[1]",
    ),
    "one result of two": (
        {
            "messages": [
                user("Hi"),
                assistant(call("t1", "Oslo", 1), call("t2", "Rome", 1)),
                user(result("t1", "a")),
            ]
        },
        "messages[1].content[1]",
    ),
    "two calls with one id": (
        {
            "messages": [
                user("Hi"),
                assistant(call("t1", "Oslo", 1), call("t1", "Rome", 1)),
                user(result("t1", "a")),
            ]
        },
        "messages[1].content[1].id",
    ),
    "a call of the user": ({"messages": [user(call("t1", "a", 1))]}, "messages[0].content[0]"),
    "a result of the assistant": (
        {"messages": [user("a"), assistant(result("t1", "a"))]},
        "messages[1].content[0]",
    ),
    "a call without input": (
        {
            "messages": [
                user("Hi"),
                assistant({"type": "tool_use", "id": "t1", "name": "weather"}),
                user(result("t1", "a")),
            ]
        },
        "messages[1].content[0]",
    ),
    "a beginning that ends in a blank": (
        {"messages": [user("Hi"), assistant("So ")]},
        "messages[1].content",
    ),
    "a beginning of thinking": (
        {"messages": [user("Hi"), assistant(THOUGHT)]},
        "messages[1].content",
    ),
    "a beginning of an answer in a schema": (
        {"messages": [user("Hi"), assistant("{")], "output_config": JSON},
        "messages[1].content",
    ),
    "a server's tool": (
        {"tools": [{"type": "web_search_20260318", "name": "web_search"}]},
        "tools[0].type",
    ),
    "a built-in tool": ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
    "a tool without a schema": ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
    "two tools with one name": ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    "a tool for code only": (
        {"tools": [{**WEATHER, "allowed_callers": ["code_execution_20260120"]}]},
        "tools[0].allowed_callers",
    ),
    "a tool's examples": (
        {"tools": [{**WEATHER, "input_examples": [{}]}]},
        "tools[0].input_examples",
    ),
    "any of no tools": ({"tool_choice": {"type": "any"}}, "tool_choice"),
    "an unknown tool": (
        {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}},
        "tool_choice.name",
    ),
    "thinking that there is not": (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        "thinking.type",
    ),
    "fast mode": ({"speed": "fast"}, "speed"),
    "servers of tools": ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
    "a container": ({"container": "c"}, "container"),
    "a thread": ({"thread": {"type": "create"}}, "thread"),
    "diagnostics": ({"diagnostics": {"previous_message_id": "msg_0"}}, "diagnostics"),
    "edits of the context": (
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        "context_management.edits[0]",
    ),
    "five marks": (
        {"messages": [user(*[text(str(n), cache_control=EPHEMERAL) for n in range(5)])]},
        "messages[0].content[4].cache_control",
    ),
    "an hour behind five minutes": (
        {
            "system": [text("a", cache_control=EPHEMERAL)],
            "messages": [user(text("b", cache_control=HOUR))],
        },
        "messages[0].content[0].cache_control.ttl",
    ),
    "a marked thought": (
        {"messages": [user("a"), assistant({**THOUGHT, "cache_control": EPHEMERAL}), user("b")]},
        "messages[1].content[0].cache_control",
    ),
    "a marked empty text": (
        {"messages": [user(text("", cache_control=EPHEMERAL), text("a"))]},
        "messages[0].content[0].cache_control",
    ),
    "a mark inside a result": (
        {"messages": [*CALLED, user(result("t1", [text("a", cache_control=HOUR), text("b")]))]},
        "messages[2].content[0].content[0].cache_control",
    ),
    "an automatic mark of another time": (
        {"messages": [user(text("a", cache_control=HOUR))], "cache_control": EPHEMERAL},
        "cache_control.ttl",
    ),
    "an automatic mark beside four": (
        {
            "messages": [
                user(*[text(str(n), cache_control=EPHEMERAL) for n in range(4)], text("last"))
            ],
            "cache_control": EPHEMERAL,
        },
        "messages[0].content[4].cache_control",
    ),
    "a stream of nothing": ({"max_tokens": 0, "stream": True}, "stream"),
    "a schema of nothing": ({"max_tokens": 0, "output_config": JSON}, "output_config.format"),
    "a call in nothing": (
        {"max_tokens": 0, "tools": [WEATHER], "tool_choice": {"type": "any"}},
        "tool_choice",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_honoured_is_refused_by_the_name_of_its_field(name: str) -> None:
    body, param = REFUSED[name]

    with pytest.raises(ApiError) as refused:
        decoded(**body)

    assert (refused.value.status, refused.value.param) == (400, param)
    assert param.partition(".")[0] in error_body(refused.value)["error"]["message"]


ACCEPTED: dict[str, dict[str, Any]] = {
    "advice": {"output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}},
    "no thinking": {"thinking": {"type": "disabled"}},
    "nulls": {"container": None, "thread": None, "diagnostics": None, "speed": None},
    "edits of thinking": {
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    },
    "thinking of others": {
        "messages": [
            user("a"),
            assistant({"type": "redacted_thinking", "data": "x"}, text("b")),
            user("c"),
        ]
    },
    "loading later": {"tools": [{**WEATHER, "defer_loading": True, "eager_input_streaming": True}]},
    "a mark on a result's last block": {
        "messages": [*CALLED, user(result("t1", [text("a"), text("b", cache_control=HOUR)]))]
    },
    "an automatic mark on a marked block": {
        "messages": [user(text("a", cache_control=HOUR))],
        "cache_control": HOUR,
    },
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_changes_nothing_is_accepted(name: str) -> None:
    decoded(**ACCEPTED[name])


def test_blocks_become_the_messages_of_a_template() -> None:
    chat = decoded(
        system=[text("Be kind."), text("Be short.")],
        messages=[
            user(text("a"), text("b")),
            assistant({**THOUGHT}, text("c"), call("t1", "Zürich", 1), call("t2", "Rome", 2)),
            user(result("t1", "r"), result("t2", [text("s"), text("t")], is_error=True), text("u")),
        ],
    ).chat

    assert [(m.role, m.content, m.reasoning, m.tool_call_id) for m in chat.messages] == [
        ("system", "Be kind.\nBe short.", "", None),
        ("user", "a\nb", "", None),
        ("assistant", "c", "Hm.", None),
        ("tool", "r", "", "t1"),
        ("tool", "Error: s\nt", "", "t2"),
        ("user", "u", "", None),
    ]
    assert [(c.id, c.arguments) for c in chat.messages[2].tool_calls] == [
        ("t1", '{"city": "Zürich", "days": 1}'),
        ("t2", '{"city": "Rome", "days": 2}'),
    ]


def test_neighbouring_assistant_messages_are_one_turn_and_users_stay_apart() -> None:
    messages = [user("a"), user("b"), assistant("c"), assistant(text("d")), user("e")]

    shown = decoded(messages=messages).chat.messages

    assert [message.content for message in shown] == ["a", "b", "cd", "e"]


def test_a_document_says_its_title_context_and_text() -> None:
    source = {"type": "content", "content": [text("One."), text("Two.")]}
    document = {"type": "document", "title": "T", "context": "C", "source": source}

    assert decoded(messages=[user(document)]).chat.messages[0].content == "T\nC\nOne.\nTwo."


def test_choices_of_tools_are_the_services() -> None:
    def chosen(**choice: Any) -> tuple[object, bool]:
        chat = decoded(tools=[WEATHER, TIME], tool_choice=choice or None).chat
        return chat.tool_choice, chat.parallel_tool_calls

    assert chosen() == ("auto", True)
    assert chosen(type="any", disable_parallel_tool_use=True) == ("required", False)
    assert chosen(type="none") == ("none", True)
    assert chosen(type="tool", name="time") == (ToolName("time"), True)


def test_only_strict_tools_are_held_to_schemas_that_cannot_be_enforced_otherwise() -> None:
    assert decoded(tools=[WEATHER]).chat.loosens_tools
    assert not decoded(tools=[WEATHER, {**TIME, "strict": True}]).chat.loosens_tools


def test_sampling_left_out_is_greedy_and_top_p_0_is_too() -> None:
    assert decoded().chat.sampling.temperature == 0
    assert decoded(temperature=1, top_p=0).chat.sampling.temperature == 0
    sampling = decoded(temperature=1, top_k=3, stop_sequences=["x"]).chat.sampling
    assert (sampling.temperature, sampling.top_k, sampling.stop) == (1.0, 3, ("x",))


@pytest.mark.parametrize(
    ("kind", "switches", "options"),
    [
        ("enabled", ("enable_thinking",), {"enable_thinking": True}),
        ("adaptive", ("thinking",), {"thinking": True}),
        ("disabled", ("enable_thinking",), {"enable_thinking": False}),
        ("enabled", (), {}),
        ("between_tools", ("thinking",), {}),
    ],
)
def test_thinking_is_switched_as_the_template_can(
    kind: str, switches: tuple[str, ...], options: dict[str, bool]
) -> None:
    chat = decoded(Thinking(*switches), thinking={"type": kind}).chat

    assert chat.template_options == options
    assert chat.separates_reasoning


def test_a_model_that_always_thinks_cannot_be_told_not_to() -> None:
    with pytest.raises(ApiError, match="always thinks"):
        decoded(Thinking(), thinking={"type": "disabled"})


UUID = "a23edd96-48e1-48db-87f9-1862bf046b00"


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        (None, None),
        ("user_1", None),
        (f"user_ab12_account__session_{UUID}", UUID),
        (f'{{"device_id": "x", "session_id": "{UUID}"}}', UUID),
        ('{"device_id": "x"}', None),
        ('{"session_id": 3}', None),
        ("{nonsense", None),
        ("{" * 100_000, None),
        (f'{{"session_id": "{"x" * 300}"}}', None),
    ],
)
def test_a_session_is_read_where_coding_agents_put_it(
    user_id: str | None, session: str | None
) -> None:
    assert decoded(metadata={"user_id": user_id}).chat.session == session


def test_what_is_for_the_sender_is_not_shown_to_the_model() -> None:
    """Fault: a coding agent's first block is another text in each session: nothing was shared."""
    system = [text("x-anthropic-billing-header: cc_version=1.e12;"), text("Be kind.")]
    first, second = decoded(system=system), decoded(system=system[:1])

    assert first.chat.messages[0].content == "Be kind."
    assert second.chat.messages[0].role == "user"


def test_marks_end_where_their_blocks_do() -> None:
    fronts = decoded(
        tools=[WEATHER, {**TIME, "cache_control": HOUR}],
        system=[text("a", cache_control=HOUR), text("b")],
        messages=[
            user(text("c", cache_control=EPHEMERAL), text("d")),
            assistant("e"),
            user("f"),
        ],
        cache_control=EPHEMERAL,
    ).fronts

    assert [front.ttl for front in fronts] == ["1h", "1h", "5m", "5m"]
    assert [[m.content for m in front.conversation.messages] for front in fronts] == [
        ["a\nb"],
        ["a"],
        ["a\nb", "c"],
        ["a\nb", "c\nd", "e", "f"],
    ]
    assert all(len(front.conversation.tools) == 2 for front in fronts)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": [user("a"), assistant(THOUGHT, text("b")), user("c")]}, "c"),
        ({"messages": [user("a"), assistant(text("b"))]}, "b"),
        ({"system": "s", "messages": [assistant("")]}, "s"),
    ],
)
def test_the_automatic_mark_is_on_the_last_block_that_can_have_one(
    body: dict[str, Any], path: str
) -> None:
    (front,) = decoded(**body, cache_control=EPHEMERAL).fronts

    assert front.conversation.messages[-1].content == path


def test_nothing_that_can_be_marked_is_no_fault() -> None:
    assert decoded(messages=[assistant("")], cache_control=EPHEMERAL).fronts == ()
