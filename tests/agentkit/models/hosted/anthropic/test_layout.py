"""A request in the order of Anthropic's cache, and who else sends each of its prefixes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

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
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.draft import SharedBy
from agentkit.caching.policy import BlockKind, Change, Speed, anthropic_policy
from agentkit.caching.request import Mark, Role
from agentkit.caching.tokens import attachment_tokens, data_tokens
from agentkit.context import Context
from agentkit.errors import ConfigurationError, RequestRefused
from agentkit.models.base import Reuse, ToolName
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.toolset import Toolset
from tests.agentkit.models.hosted.anthropic.support import (
    LABEL,
    MODEL,
    TOOLS,
    as_the_sdk_types_it,
    ask,
    call_turn,
    front,
    on_wire,
    question,
    sent,
    tool,
)

PNG = Image.of_bytes(b"png", "image/png")
SEARCH = ToolCall(id="c1", name="search", arguments='{"query":"x"}')
READ = ToolCall(id="c2", name="read", arguments='{"path":"y"}')
SCHEMA = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}


def adapter(model: str = MODEL, **options: Any) -> AnthropicAdapter:
    return AnthropicAdapter(model, options=AnthropicOptions(**options))


def kinds(context: Context, **values: Any) -> list[BlockKind]:
    return [wire.block.kind for wire in adapter().layout(ask(context, **values)).blocks]


def test_tools_come_first_then_system_then_messages() -> None:
    context = question().append(*call_turn(SEARCH, READ, before=(Text("Hm."),)))
    pieces = on_wire(sent(adapter(), ask(context.with_volatile("It is noon."))))
    assert [where for where, _ in pieces] == [
        *("tools", "tools"),
        *("system", "system", "system"),
        "user",
        *("assistant", "assistant", "assistant"),
        *("user", "user"),
        "user",
    ]
    tools = [json.loads(text) for where, text in pieces if where == "tools"]
    assert [each["name"] for each in tools] == ["read", "search"]
    assert tools[0]["input_schema"]["properties"] == {"path": {"type": "string"}}
    system = [json.loads(text)["text"] for where, text in pieces if where == "system"]
    assert system == [
        "Be exact.",
        "You read papers.",
        '<document uri="doc:a">\nA paper.\n</document>',
    ]
    assert pieces[-1][1] == '{"type":"text","text":"It is noon."}'


def test_blocks_and_the_request_that_caches_see_are_aligned() -> None:
    context = question().append(*call_turn(SEARCH, before=(Text("Hm."),))).with_volatile("Noon.")
    layout = adapter().layout(ask(context))
    assert [wire.block for wire in layout.blocks] == list(layout.cache_request.blocks)
    assert [wire.segment for wire in layout.blocks] == [1, 1, 0, 2, 3, 4, 5, 5, 6, None]
    assert layout.n_volatile == 1
    assert len(layout.stable) == len(layout.blocks) - 1
    roles = [message.role for message in layout.cache_request.messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.USER, Role.USER]
    for wire in layout.blocks:
        assert wire.block.n_tokens == data_tokens(wire.data)
    assert len({wire.block.digest for wire in layout.blocks}) == len(layout.blocks)


def test_prefixes_that_others_send_end_where_their_text_ends() -> None:
    context = question().append(*call_turn(SEARCH)).append(*call_turn(READ)).with_volatile("Noon.")
    reuse = Reuse(turns_left=3)
    shared = adapter().layout(ask(context, reuse=reuse)).shared
    assert [(each.end, each.by) for each in shared] == [
        (3, SharedBy.ORGANIZATION),  # two tools and the rules
        (5, SharedBy.AGENT),  # role and document
        (6, SharedBy.RUN),  # the first request ended with the question
        (8, SharedBy.RUN),  # the second with the first results
        (10, SharedBy.RUN),  # and this one ends here, before the volatile text
    ]
    assert all(each.reads > 0 for each in shared)
    last = adapter().layout(ask(context, reuse=Reuse(turns_left=0, front_again=False)))
    assert {each.reads for each in last.shared} == {Decimal(0)}


def test_without_rules_the_tools_alone_are_the_organisations() -> None:
    context = Context(UserMessage.of("Hi"))
    shared = adapter().layout(ask(context)).shared
    assert [(each.end, each.by) for each in shared] == [
        (2, SharedBy.ORGANIZATION),
        (3, SharedBy.RUN),
    ]
    alone = adapter().layout(ask(context, toolset=Toolset()))
    assert [each.by for each in alone.shared] == [SharedBy.RUN]


def test_each_message_opens_its_own_so_that_none_grows() -> None:
    first = question("One")
    second = first.append(UserMessage.of("Two", PNG))
    data = sent(adapter(), ask(second))
    messages = json.loads(data)["messages"]
    assert [message["role"] for message in messages] == ["user", "user"]
    assert on_wire(data)[: len(on_wire(sent(adapter(), ask(first))))] == on_wire(
        sent(adapter(), ask(first))
    )


def test_results_are_one_user_message_with_errors_and_attachments_inside() -> None:
    turn = AssistantMessage((SEARCH, READ))
    results = ToolMessage(
        (
            ToolResult(call_id="c1", name="search", content="no such page", is_error=True),
            ToolResult(call_id="c2", name="read", content="", attachments=(PNG,)),
        )
    )
    context = question().append(turn, results)
    layout = adapter().layout(ask(context))
    messages = json.loads(sent(adapter(), ask(context)))["messages"]
    assert messages[-1]["role"] == "user"
    assert messages[-1]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "no such page"}],
            "is_error": True,
        },
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"},
                }
            ],
        },
    ]
    last = layout.blocks[-1].block
    assert last.kind is BlockKind.TOOL_RESULT
    assert last.n_tokens >= attachment_tokens(PNG)
    assert layout.cache_request.value_of(Change.IMAGES) == "True"
    assert adapter().layout(ask(question())).cache_request.value_of(Change.IMAGES) == "False"


def test_images_and_documents() -> None:
    message = UserMessage(
        (
            PNG,
            Image(media_type="image/png", url="https://x/y?sig=1", width=750, height=2),
            File(name="a.pdf", media_type="application/pdf", data="cGRm"),
            File(name="b.pdf", media_type="application/pdf", url="https://x/b.pdf"),
            File.of_bytes("ä".encode(), "text/markdown", name="c.md"),
        )
    )
    context = front().append(message)
    content = json.loads(sent(adapter(), ask(context)))["messages"][0]["content"]
    assert [each["type"] for each in content] == ["image", "image", *["document"] * 3]
    assert content[1]["source"] == {"type": "url", "url": "https://x/y?sig=1"}
    assert content[2] == {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
        "title": "a.pdf",
    }
    assert content[3]["source"] == {"type": "url", "url": "https://x/b.pdf"}
    assert content[4]["source"] == {"type": "text", "media_type": "text/plain", "data": "ä"}
    data = sent(adapter(), ask(context))
    assert as_the_sdk_types_it(data) == json.loads(data)
    blocks = adapter().layout(ask(context)).blocks
    assert [wire.block.n_tokens for wire in blocks[5:7]] == [1600, 2]
    assert kinds(context)[5:] == [*[BlockKind.IMAGE] * 2, *[BlockKind.DOCUMENT] * 3]


@pytest.mark.parametrize(
    "block",
    [
        Image.of_bytes(b"x", "image/tiff"),
        File.of_bytes(b"x", "application/msword", name="a.doc"),
        File.of_bytes(b"\xff", "text/plain", name="a.txt"),
        File(name="a.txt", media_type="text/plain", data="no base64!"),
        File(name="a.txt", media_type="text/plain", url="https://x/a.txt"),
    ],
)
def test_files_that_claude_cannot_read_are_refused_of_a_user_and_told_of_a_tool(
    block: Image | File,
) -> None:
    with pytest.raises(RequestRefused, match=r"does not read|no base64"):
        adapter().layout(ask(front().append(UserMessage((block,)))))
    result = ToolResult(call_id="c1", name="search", content="see", attachments=(block,))
    context = question().append(AssistantMessage((SEARCH,)), ToolMessage((result,)))
    data = sent(adapter(), ask(context))
    inner = json.loads(data)["messages"][-1]["content"][0]["content"]
    assert [each["type"] for each in inner] == ["text", "text"]
    assert "left out" in inner[1]["text"]


def test_empty_texts_and_messages_are_never_sent() -> None:
    context = question().append(
        AssistantMessage((Text(" \n"), SEARCH)),
        ToolMessage((ToolResult(call_id="c1", name="search", content=" "),)),
        AssistantMessage(()),
        UserMessage((Text(""),)),
    )
    data = sent(adapter(), ask(context))
    assert [where for where, _ in on_wire(data)][5:] == ["user", "assistant", "user"]
    assert on_wire(data)[-1][1] == '{"type":"tool_result","tool_use_id":"c1"}'
    assert b'"content":[]' not in data


def test_a_request_without_any_message_is_refused() -> None:
    with pytest.raises(RequestRefused, match="needs a message"):
        adapter().layout(ask(front()))


def test_a_breakpoint_on_text_that_is_not_sent_is_refused_and_not_lost() -> None:
    with pytest.raises(RequestRefused, match="the block before it"):
        adapter().layout(ask(front().append(UserMessage((Text("", "1h"), Text("x"))))))


@pytest.mark.parametrize(
    ("wanted", "given"),
    [("default", None), ("5m", "5m"), ("30m", "1h"), ("1h", "1h"), ("12h", "1h")],
)
def test_a_users_mark_gets_the_next_longer_lifetime(wanted: Any, given: str | None) -> None:
    context = front().append(UserMessage((Text("a", wanted), Text("b"))))
    blocks = adapter().layout(ask(context)).blocks
    mark = blocks[-2].block.mark
    assert isinstance(mark, Mark)
    assert mark.ttl == given
    assert blocks[-1].block.mark is None


def test_other_vendors_thinking_and_items_stay_behind() -> None:
    """C85: a history that an OpenAI model has added to keeps none of that vendor's fields."""
    foreign = (
        Thinking("secret", "sig", "openai:gpt-6-sol"),
        VendorItem(source="openai:gpt-6-sol", data='{"type":"reasoning","encrypted_content":"e"}'),
        VendorItem(source="gemini:gemini-4-argon", data='{"thought_signature":"t"}'),
    )
    ours = (*foreign, Text("Hi."), SEARCH, foreign[2])
    with_items = question().append(
        AssistantMessage(ours),
        ToolMessage((ToolResult(call_id="c1", name="search", content="ok"),)),
    )
    without = question().append(
        AssistantMessage((Text("Hi."), SEARCH)),
        ToolMessage((ToolResult(call_id="c1", name="search", content="ok"),)),
    )
    assert sent(adapter(), ask(with_items)) == sent(adapter(), ask(without))


@pytest.mark.parametrize(
    ("model", "source", "is_sent"),
    [
        (MODEL, LABEL, True),
        (MODEL, "anthropic:claude-opus-5", False),  # bound to its model
        (MODEL, None, False),
        ("claude-opus-5", "anthropic:claude-opus-5", True),
        ("claude-opus-5", "anthropic:claude-opus-4-8", True),
        ("claude-opus-5", "openai:gpt-6-sol", False),
    ],
)
def test_thinking_goes_back_to_the_models_that_take_it(
    model: str, source: str | None, is_sent: bool
) -> None:
    thought = Thinking("Ünsure", "sig+/=", source)
    redacted = VendorItem(source=source or "", data='{"type":"redacted_thinking","data":"d"}')
    context = question().append(*call_turn(SEARCH, before=(thought, redacted)))
    data = sent(adapter(model), ask(context))
    expected = '{"type":"thinking","thinking":"Ünsure","signature":"sig+/="}'
    assert (expected.encode() in data) is is_sent
    assert (redacted.data.encode() in data) is is_sent
    assert anthropic_policy(model, adapter()._policy.on).thinking_is_bound is (model == MODEL)


def test_thinking_without_its_proof_is_left_out() -> None:
    context = question().append(*call_turn(SEARCH, before=(Thinking("x", None, LABEL),)))
    assert b"thinking" not in sent(adapter(), ask(context))


def test_calls_that_code_in_the_sandbox_made_are_named_as_such() -> None:
    """C32: neither such a call nor its result can carry a mark, so no planner puts one there."""
    caller = '{"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}'
    turn = AssistantMessage((SEARCH, VendorItem(source=LABEL, data=caller), READ))
    results = tuple(
        ToolResult(call_id=each.id, name=each.name, content="ok") for each in (SEARCH, READ)
    )
    context = question().append(turn, ToolMessage(results))
    layout = adapter().layout(ask(context))
    assert [wire.block.kind for wire in layout.blocks[6:]] == [
        BlockKind.PROGRAMMATIC_TOOL_USE,
        BlockKind.TOOL_USE,
        BlockKind.PROGRAMMATIC_TOOL_RESULT,
        BlockKind.TOOL_RESULT,
    ]
    markable = adapter()._policy.markable
    assert [wire.block.kind in markable for wire in layout.blocks[6:]] == [False, True] * 2
    data = sent(adapter(), ask(context), 4)
    assert as_the_sdk_types_it(data) == json.loads(data)
    call = json.loads(layout.blocks[6].data)
    assert call["caller"] == {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    assert layout.cache_request.messages[-1].is_tool_result


def test_no_text_is_put_behind_the_results_of_code() -> None:
    caller = '{"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}'
    turn = AssistantMessage((SEARCH, VendorItem(source=LABEL, data=caller)))
    results = ToolMessage((ToolResult(call_id="c1", name="search", content="ok"),))
    layout = adapter().layout(ask(question().append(turn, results).with_volatile("Noon.")))
    assert layout.n_volatile == 0
    assert layout.blocks[-1].block.kind is BlockKind.PROGRAMMATIC_TOOL_RESULT


def test_masks_and_settings_change_no_byte_of_the_prompt() -> None:
    request = ask(question())
    masked = ask(question(), allowed_tools=frozenset(["read"]))
    nothing = ask(question(), allowed_tools=frozenset())
    for other in (masked, nothing):
        assert sent(adapter(), other) == sent(adapter(), request)
        assert adapter().layout(other).cache_request == adapter().layout(request).cache_request


@pytest.mark.parametrize(
    ("choice", "param", "named"),
    [
        ("auto", None, "auto"),
        ("none", {"type": "none"}, "none"),
        ("required", {"type": "any"}, "any"),
        (ToolName("read"), {"type": "tool", "name": "read"}, "read"),
    ],
)
def test_the_agents_own_tool_choice(choice: Any, param: Any, named: str) -> None:
    request = ask(question(), tool_choice=choice)
    assert json.loads(sent(adapter(), request)).get("tool_choice") == param
    assert adapter().layout(request).cache_request.identity.tool_choice == named
    without_tools = ask(question(), toolset=Toolset(), tool_choice=choice)
    assert "tool_choice" not in json.loads(sent(adapter(), without_tools))


def test_options_are_part_of_what_entries_are_keyed_by() -> None:
    options: dict[str, Any] = {
        "thinking": 4096,
        "thinking_display": "omitted",
        "effort": "low",
        "parallel_tools": False,
        "speed": "fast",
        "service_tier": "standard_only",
        "inference_geo": "us",
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "server_tools": ({"type": "web_search_20260209", "name": "web_search"},),
        "betas": ("b",),
        "max_tokens": 9000,
        "extra_body": {"metadata": {"user_id": "u"}},
    }
    request = ask(question(), output_schema=SCHEMA)
    used = adapter(**options)
    cached = used.layout(request).cache_request
    identity = cached.identity
    assert identity.thinking == "enabled:4096:omitted"
    assert identity.effort == "low"
    assert not identity.parallel_tools
    assert identity.output_format is not None
    assert identity.context_management is not None
    assert identity.web_tools
    assert identity.betas == {"b", "context-management-2025-06-27"}
    assert (cached.terms.speed, cached.terms.us_only) == (Speed.FAST, True)
    body = json.loads(sent(used, request))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4096, "display": "omitted"}
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["context_management"] == options["context_management"]
    assert body["tools"][-1] == options["server_tools"][0]
    assert body["metadata"] == {"user_id": "u"}
    assert (body["max_tokens"], body["speed"], body["inference_geo"]) == (9000, "fast", "us")
    assert cached.stream
    assert as_the_sdk_types_it(sent(used, request), beta=True) == body


def test_features_in_beta_get_their_headers() -> None:
    edits = {"edits": [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]}
    options = AnthropicOptions(
        context_management=edits,
        thinking="adaptive",
        thinking_display="updates",
        betas=("context-1m-2025-08-07", "compact-2026-01-12"),
    )
    assert options.all_betas == (
        "compact-2026-01-12",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "thinking-display-updates-2026-08-18",
    )


def test_options_cannot_be_changed_from_outside() -> None:
    edits: dict[str, Any] = {"edits": [{"type": "clear_tool_uses_20250919", "keep": 1}]}
    used = adapter(context_management=edits)
    before = sent(used, ask(question()))
    edits["edits"][0]["keep"] = 2
    assert sent(used, ask(question())) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thinking": 100}, "at least 1024"),
        ({"thinking": True}, "at least 1024"),
        ({"thinking_display": "omitted"}, "thinking='adaptive'"),
        ({"max_tokens": 0}, "at least 1"),
        ({"extra_body": {"messages": []}}, "messages"),
        ({"context_management": {"edits": float("nan")}}, "no JSON value"),
    ],
)
def test_options_that_the_api_cannot_take(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        AnthropicOptions(**options)


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        (MODEL, {}, 32_000),
        ("claude-3-5-haiku-20241022", {}, 8_192),
        (MODEL, {"thinking": 60_000}, 76_000),
        (MODEL, {"max_tokens": 5}, 5),
    ],
)
def test_the_bound_of_an_answer(model: str, options: dict[str, Any], expected: int) -> None:
    assert json.loads(sent(adapter(model, **options), ask(question())))["max_tokens"] == expected


def test_pieces_are_encoded_once_for_each_segment() -> None:
    used = adapter()
    first = question().append(*call_turn(SEARCH))
    early = used.layout(ask(first))
    later = used.layout(ask(first.append(*call_turn(READ))))
    for before, after in zip(early.blocks, later.blocks, strict=False):
        assert before.data is after.data
        assert before.block is after.block


def test_a_toolset_in_another_order_of_arrival_has_the_same_bytes() -> None:
    names = ["b", "a", "c"]
    one = Toolset([tool(name) for name in names])
    two = Toolset([tool(name) for name in sorted(names)])
    assert sent(adapter(), ask(question(), toolset=one)) == sent(
        adapter(), ask(question(), toolset=two)
    )
    assert TOOLS.names == ("read", "search")
