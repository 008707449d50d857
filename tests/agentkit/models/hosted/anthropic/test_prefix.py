"""The promise: what was sent is a byte prefix of what is sent next, in the cache's order."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import respx
from hypothesis import given
from hypothesis import strategies as st

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
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import Switches, Ttl, anthropic_policy
from agentkit.caching.request import CacheRequest
from agentkit.caching.simulate import ManualClock, Refused, Served, SimulatedAnthropic
from agentkit.context import Context
from agentkit.folding import fold
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from tests.agentkit.models.hosted.anthropic.support import (
    LABEL,
    MODEL,
    URL,
    answer,
    ask,
    call_block,
    call_turn,
    collect,
    front,
    last_stable,
    message_end,
    message_start,
    on_wire,
    plan,
    question,
    sent,
    stable_on_wire,
    streamed,
    text_block,
    thinking_block,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
sources = st.sampled_from([LABEL, "anthropic:claude-opus-5", "openai:gpt-6-sol", None])
attachments = st.one_of(
    st.builds(Image.of_bytes, st.binary(max_size=4), st.sampled_from(["image/png", "image/bmp"])),
    st.builds(lambda url: Image(media_type="image/png", url=f"https://x/{url}"), texts),
    st.builds(lambda data: File.of_bytes(data, "application/pdf", name="a.pdf"), st.binary()),
)
user_blocks = st.one_of(
    st.builds(Text, texts),
    st.builds(lambda data: Image.of_bytes(data, "image/webp"), st.binary(max_size=4)),
)
arguments = st.one_of(
    st.just('{"query": "x"}'),
    st.just('{ "b":1,\n "a":"\\u00fc" }'),
    texts,
    st.dictionaries(texts, st.integers()).map(json.dumps),
)
items = st.builds(
    lambda source, data: VendorItem(source=source or "?", data=data),
    sources,
    st.sampled_from(
        [
            '{"type":"redacted_thinking","data":"d"}',
            '{"type":"server_tool_use","id":"s","name":"web_search","input":{}}',
            '{"type":"web_search_tool_result","tool_use_id":"s","content":[]}',
            '{"type":"newer_than_this_code"}',
            '{"caller":{"type":"code_execution_20260120","tool_id":"t"}}',
            '{"citations":[{"cited_text":"x"}]}',
            '{"message_id":"msg_1"}',
            "{}",
        ]
    ),
)
said = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, st.one_of(st.none(), texts), sources),
    items,
)


@st.composite
def turns(draw: st.DrawFn) -> tuple[Any, ...]:
    """What is appended at once: a user message, or a turn with the results of its calls."""
    if draw(st.booleans()):
        return (UserMessage(tuple(draw(st.lists(user_blocks, max_size=3)))),)
    n_calls = draw(st.integers(0, 3))
    calls = [
        # Ids are often the same in several turns, as those of some vendors are.
        ToolCall(
            id=f"{draw(st.sampled_from(['call', 'a.b']))}_{index}",
            name=draw(st.sampled_from(["search", "read", "no.such"])),
            arguments=draw(arguments),
        )
        for index in range(n_calls)
    ]
    blocks = [*draw(st.lists(said, max_size=3))]
    for call in calls:
        blocks += [call, *draw(st.lists(items, max_size=1))]
    if not calls:
        return (AssistantMessage(tuple(blocks)),)
    results = tuple(
        ToolResult(
            call_id=call.id,
            name=call.name,
            content=draw(texts),
            is_error=draw(st.booleans()),
            attachments=tuple(draw(st.lists(attachments, max_size=1))),
        )
        for call in calls
    )
    return (AssistantMessage(tuple(blocks)), ToolMessage(results))


histories = st.lists(st.tuples(turns(), st.one_of(st.none(), texts), st.booleans()), max_size=6)


@given(histories, st.sampled_from([MODEL, "claude-opus-5", "claude-haiku-4-5"]), st.data())
def test_appending_never_changes_an_earlier_byte(
    history: list[tuple[tuple[Any, ...], str | None, bool]], model: str, data: st.DataObject
) -> None:
    """Histories with tools, images, thinking, errors and items of any vendor; saved and loaded at
    any time, in this process and in a new one, with other marks and other volatile text."""
    adapter = AnthropicAdapter(model)
    context = question("Begin.")
    before: list[tuple[str, str]] = []
    blocks_before: tuple[bytes, ...] = ()
    for contents, volatile, is_resumed in history:
        context = context.append(*contents)
        if is_resumed:
            context = Context.load(context.dump())
            adapter = AnthropicAdapter(model)
        request = ask(context.with_volatile(volatile))
        layout = adapter.layout(request)
        markable = [
            index
            for index, wire in enumerate(layout.blocks[: last_stable(layout) + 1])
            if wire.block.kind in anthropic_policy(model, adapter._policy.on).markable
        ]
        marks = sorted(data.draw(st.sets(st.sampled_from(markable), max_size=4)))
        body = sent(adapter, request, *marks)
        json.loads(body)
        now = stable_on_wire(body, layout)
        assert now[: len(before)] == before
        assert layout.stable[: len(blocks_before)] == blocks_before
        assert [text.encode() for _, text in now] == list(layout.stable)
        before, blocks_before = now, layout.stable


@given(histories)
def test_every_request_is_one_that_the_simulated_api_takes(
    history: list[tuple[tuple[Any, ...], str | None, bool]],
) -> None:
    clock = ManualClock()
    cache = SimulatedAnthropic(clock=clock)
    adapter = AnthropicAdapter(MODEL)
    context = question("Begin.")
    proofs = itertools.count()
    for contents, _, _ in history:
        context = context.append(*(_with_proofs(each, proofs) for each in contents))
        layout = adapter.layout(ask(context))
        ends = [prefix.end for prefix in layout.shared]
        assert ends == sorted(set(ends))
        assert ends[-1] == len(layout.blocks) - layout.n_volatile
        assert not isinstance(cache.request(layout.cache_request), Refused)


def _with_proofs(content: Any, proofs: Iterator[int]) -> Any:
    """No two thoughts have the same proof, whatever their text."""
    if not isinstance(content, AssistantMessage):
        return content
    blocks = []
    for block in content.blocks:
        if isinstance(block, Thinking) and block.signature:
            blocks.append(replace(block, signature=f"sig{next(proofs)}"))
        elif isinstance(block, VendorItem) and "type" in json.loads(block.data):
            data = json.loads(block.data) | {"data": next(proofs)}
            blocks.append(replace(block, data=json.dumps(data)))
        else:
            blocks.append(block)
    return AssistantMessage(tuple(blocks))


async def test_thinking_that_was_written_behind_volatile_text_is_not_sent_back(
    make_adapter: Callable[..., AnthropicAdapter], httpx2_mock: respx.Router
) -> None:
    """On these models thinking is bound to the prefix before it. The text for one request is gone
    in the next, so the API would refuse the thinking; without such text it goes back."""
    events = answer(
        thinking_block(0, "Hm.", "sig=="),
        [
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "redacted_thinking", "data": "d"},
            },
            {"type": "content_block_stop", "index": 1},
        ],
        call_block(2, "c1", "search", "{}"),
        stop_reason="tool_use",
    )
    httpx2_mock.post(URL).mock(side_effect=lambda _: streamed(events))
    for model, volatile, is_kept in (
        (MODEL, "Noon.", False),
        (MODEL, None, True),
        ("claude-opus-5", "Noon.", True),
    ):
        adapter = make_adapter(model)
        cache = SimulatedAnthropic(clock=ManualClock())
        context = question()
        request = ask(context.with_volatile(volatile))
        layout = adapter.layout(request)
        turn = fold(await collect(adapter, request)).message
        assert "Hm." in [block.text for block in turn.blocks if isinstance(block, Thinking)]
        results = ToolMessage((ToolResult(call_id="c1", name="search", content="ok"),))
        following = adapter.layout(ask(context.append(turn, results)))
        assert (b"sig==" in b"".join(following.stable)) is is_kept
        assert (b"redacted" in b"".join(following.stable)) is is_kept
        # What the model wrote, as the API saw it, and the prefix that it is bound to.
        written = AssistantMessage(
            (
                Thinking("Hm.", "sig==", adapter.label),
                VendorItem(source=adapter.label, data='{"type":"redacted_thinking","data":"d"}'),
                *turn.calls,
            )
        )
        output = adapter.layout(ask(context.append(written, results))).cache_request.messages[1]
        served = cache.begin(layout.cache_request)
        assert not isinstance(served, Refused)
        served.response_began()
        served.end(output=output.blocks)
        assert isinstance(cache.request(following.cache_request), Served)


def test_a_signed_url_is_sent_as_it_was_stored() -> None:
    """C20: a session that is loaded again sends the URL it was given, not one signed anew."""
    nonces = iter(range(10))
    image = Image(media_type="image/png", url=f"https://x/i.png?nonce={next(nonces)}")
    context = question().append(UserMessage((image, Text("What is it?"))))
    stored = context.dump()
    first = sent(AnthropicAdapter(MODEL), ask(Context.load(stored)))
    again = sent(AnthropicAdapter(MODEL), ask(Context.load(stored)))
    assert first == again
    assert b"nonce=0" in again


_FOURTH = """
import sys
from agentkit.context import Context
from tests.agentkit.models.hosted.anthropic.support import ask, sent
from agentkit.blocks import UserMessage
from agentkit.models.hosted.anthropic import AnthropicAdapter
context = Context.load(sys.stdin.buffer.read()).append(UserMessage.of("Fourth"))
sys.stdout.buffer.write(sent(AnthropicAdapter("claude-sonnet-5-5"), ask(context), 3))
"""


def test_a_resumed_run_sends_what_the_first_process_sent() -> None:
    """C56: three turns, saved, loaded in a new process (with another hash seed): the request of the
    third turn, thinking and all, is a byte prefix of that of the fourth."""
    context = question()
    for turn in range(3):
        call = ToolCall(id=f"c{turn}", name="search", arguments=f'{{ "query": "{turn}" }}')
        thought = Thinking(f"Thought {turn}", f"sig{turn}", LABEL)
        context = context.append(*call_turn(call, before=(thought,)))
    third = sent(AnthropicAdapter(MODEL), ask(context), 2)
    done = subprocess.run(
        [sys.executable, "-c", _FOURTH],
        input=context.dump(),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[5],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."},
    )
    assert on_wire(done.stdout)[: len(on_wire(third))] == on_wire(third)
    assert b"Thought 2" in done.stdout


async def test_claude_behind_a_gateway_is_cached_and_the_usage_shows_it(
    make_adapter: Callable[..., AnthropicAdapter],
) -> None:
    """C89: evidence instead of a setting that looks on: the marks are on the gateway's wire, and
    the second request reads what the first wrote."""
    from anthropic import AsyncAnthropic

    cache = SimulatedAnthropic(clock=ManualClock())
    queue: list[CacheRequest] = []

    def serve(request: httpx.Request) -> httpx.Response:
        assert request.content.count(b'"cache_control"') == 2
        served = cache.request(queue.pop())
        assert isinstance(served, Served)
        usage = dict(served.usage_json)
        return streamed([message_start(usage), *text_block(0, "ok"), *message_end()])

    client = AsyncAnthropic(api_key="gateway-key", base_url="https://gateway.example/anthropic")
    adapter = make_adapter(client=client)
    context = question("word " * 4000)
    reads = []
    with respx.mock(using="httpcore2") as router:
        router.post("https://gateway.example/anthropic/v1/messages").mock(side_effect=serve)
        for _ in range(2):
            request = ask(context)
            layout = adapter.layout(request)
            marked = plan(4, last_stable(layout))
            queue.append(marked.applied(layout.cache_request))
            events = [e async for e in adapter.stream(adapter.body(layout, marked, request))]
            turn = fold(events)
            reads.append(turn.usage.cache_read_tokens)
            context = context.append(turn.message, UserMessage.of("And?"))
    assert reads[0] == 0
    assert reads[1] is not None
    assert reads[1] > 4000


def test_the_beta_header_of_the_diagnostics_is_a_switch() -> None:
    from agentkit.caching.policy import DiagnosticsField

    options = AnthropicOptions(diagnostics=True)
    switches = Switches(anthropic_diagnostics=DiagnosticsField.BETA_HEADER)
    for given_switches, headers in (
        (None, {}),
        (switches, {"anthropic-beta": "cache-diagnosis-2026-04-07"}),
    ):
        adapter = AnthropicAdapter(MODEL, options=options, switches=given_switches)
        request = ask(question())
        assert adapter.body(adapter.layout(request), plan(), request).headers == headers


def test_a_front_is_shared_with_other_agents_of_the_team() -> None:
    adapter = AnthropicAdapter(MODEL)
    one = on_wire(sent(adapter, ask(question("One")), (2, Ttl.ONE_HOUR)))
    two = on_wire(sent(adapter, ask(front().append(UserMessage.of("Two"))), 4))
    assert one[:5] == two[:5]
    assert isinstance(plan(), CachePlan)
