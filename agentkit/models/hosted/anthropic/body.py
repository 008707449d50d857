"""The final bytes of a request."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from agentkit.blocks import Json
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import AnthropicPolicy, BlockKind, Ttl
from agentkit.caching.request import Role
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic.identity import tool_choice_param
from agentkit.models.hosted.anthropic.layout import AnthropicLayout
from agentkit.models.hosted.anthropic.limits import default_max_tokens
from agentkit.models.hosted.anthropic.options import AnthropicOptions
from agentkit.models.hosted.anthropic.pieces import message_data, spliced
from agentkit.models.hosted.wire import Body
from agentkit.models.hosted.wire_json import compact_json


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicBody(Body):
    """A finished request, and what it takes to finish it in another way."""

    prompt: bytes
    """Tools, system and stable messages as members of the body; the list of messages is open."""
    volatile: bytes
    """The messages for this request only, each after its comma."""
    settings: Mapping[str, Json]
    is_marked: bool
    keeps_thinking: bool
    """Whether the thinking of the answer can be sent back. It cannot where it is bound to a prefix
    with volatile text, which no later request has."""

    def continued(self, turn: tuple[bytes, ...], container: str | None) -> bytes:
        """Return the request with the blocks of a paused turn at its end, in its sandbox."""
        said = b"," + message_data(Role.ASSISTANT, turn)
        place: dict[str, Json] = {} if container is None else {"container": container}
        return _finished({**self.settings, **place}, self.prompt, self.volatile, said)

    def touching(self) -> bytes | None:
        """Return the same prefix and marks without an answer; None if the API refuses that.

        Source: documentation of 2026-08-21, pre-warming.
        """
        settings = dict(self.settings)
        forced = _member(settings, "tool_choice", "type") in ("any", "tool")
        budgeted = _member(settings, "thinking", "type") == "enabled"
        formed = _member(settings, "output_config", "format") is not None
        if not self.is_marked or forced or budgeted or formed:
            return None
        del settings["stream"]
        return _finished(settings | {"max_tokens": 0}, self.prompt)


def finish(
    layout: AnthropicLayout,
    plan: CachePlan,
    request: ModelRequest,
    *,
    model: str,
    policy: AnthropicPolicy,
    options: AnthropicOptions,
) -> AnthropicBody:
    """Return the final bytes: the pieces, joined, with the plan's marks.

    Raises:
        RequestRefused: the API would refuse a mark of the plan.
    """
    _check_marks(layout, plan, policy)
    n_tools = len(layout.cache_request.tools)
    n_front = n_tools + len(layout.cache_request.system)
    marks = {mark.index: cache_control(mark.ttl) for mark in plan.marks}
    front = [
        spliced(wire.data, marks.get(index, b""))
        for index, wire in enumerate(layout.blocks[:n_front])
    ]
    messages = _messages(layout, {at: mark for at, mark in marks.items() if at >= n_front})
    # Of the messages behind the stable ones each begins among the volatile blocks.
    n_stable = bisect_left(layout.starts, len(layout.blocks) - layout.n_volatile)
    opening = b""
    if n_tools:
        opening += b'"tools":[%b],' % b",".join(front[:n_tools])
    if n_front > n_tools:
        opening += b'"system":[%b],' % b",".join(front[n_tools:])
    opening += b'"messages":['
    # Joined in one step: a long prompt is copied as seldom as can be.
    messages[:1] = [opening + messages[0]]
    prompt = b",".join(messages[:n_stable])
    volatile = b"".join(b"," + message for message in messages[n_stable:])
    settings = _settings(layout, request, model, options)
    betas = sorted(layout.cache_request.identity.betas)
    return AnthropicBody(
        data=_finished(settings, prompt, volatile),
        headers={"anthropic-beta": ",".join(betas)} if betas else {},
        prompt=prompt,
        volatile=volatile,
        settings=settings,
        is_marked=bool(plan.marks),
        keeps_thinking=not (layout.n_volatile and policy.thinking_is_bound),
    )


def cache_control(ttl: Ttl | None) -> bytes:
    """Return the field that marks a block."""
    lifetime = b"" if ttl is None else b',"ttl":%b' % compact_json(ttl.value)
    return b'"cache_control":{"type":"ephemeral"%b}' % lifetime


def _messages(layout: AnthropicLayout, marks: Mapping[int, bytes]) -> list[bytes]:
    """Return the messages; those without marks are as they were made."""
    found = list(layout.texts)
    for number in {bisect_right(layout.starts, index) - 1 for index in marks}:
        message, first = layout.cache_request.messages[number], layout.starts[number]
        blocks = (
            spliced(layout.blocks[index].data, marks.get(index, b""))
            for index in range(first, first + len(message.blocks))
        )
        found[number] = message_data(message.role, blocks)
    return found


def _finished(settings: Mapping[str, Json], *prompt: bytes) -> bytes:
    return b"".join((b"{", *prompt, b"],", compact_json(settings)[1:]))


def _settings(
    layout: AnthropicLayout, request: ModelRequest, model: str, options: AnthropicOptions
) -> dict[str, Json]:
    """What is no part of the prompt's text. Left out is what leaves the choice to the model."""
    return {
        "model": model,
        "max_tokens": _max_tokens(request, model, options),
        "stream": True,
        **dict(_given(layout, request, options)),
        **options.extra_body,
    }


def _given(
    layout: AnthropicLayout, request: ModelRequest, options: AnthropicOptions
) -> Iterator[tuple[str, Json]]:
    settings = request.settings
    output: dict[str, Json] = {}
    if options.effort is not None:
        output["effort"] = options.effort
    if layout.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": layout.output_schema}  # type: ignore[dict-item]
    for name, value in (
        ("tool_choice", tool_choice_param(request, options)),
        ("thinking", options.thinking_param),
        ("output_config", output or None),
        ("temperature", settings.temperature),
        ("top_k", settings.top_k),
        ("top_p", settings.top_p),
        ("stop_sequences", list(settings.stop) or None),
        ("speed", options.speed),
        ("service_tier", options.service_tier),
        ("inference_geo", options.inference_geo),
        ("context_management", options.context_management),
        ("container", layout.container),
    ):
        if value is not None:
            yield name, value  # type: ignore[misc]
    if options.diagnostics:
        yield "diagnostics", {"previous_message_id": layout.previous_message_id}


def _max_tokens(request: ModelRequest, model: str, options: AnthropicOptions) -> int:
    given = request.settings.max_tokens or options.max_tokens
    if given is not None:
        return given
    budget = options.thinking if isinstance(options.thinking, int) else 0
    return default_max_tokens(model, budget)


def _member(settings: Mapping[str, Json], name: str, member: str) -> Json:
    value = settings.get(name)
    return value.get(member) if isinstance(value, Mapping) else None


def _check_marks(layout: AnthropicLayout, plan: CachePlan, policy: AnthropicPolicy) -> None:
    """Raise where the API would answer 400, or the cache would write what nobody reads."""
    allowed = [choice.ttl for choice in policy.ttls]
    n_stable = len(layout.blocks) - layout.n_volatile
    ttls: list[Ttl] = []
    for mark in plan.marks:
        if not 0 <= mark.index < n_stable:
            raise _bad(f"block {mark.index} is not among the {n_stable} stable blocks")
        block = layout.blocks[mark.index].block
        if block.kind not in policy.markable or (
            block.kind is BlockKind.TEXT and not block.n_tokens
        ):
            raise _bad(f"block {mark.index} is {block.kind.value!r}, which cannot be marked")
        ttls.append(mark.ttl or policy.default_ttl)
        if ttls[-1] not in allowed:
            raise _bad(f"block {mark.index} asks for {ttls[-1].value!r}, allowed are {allowed}")
    if len({mark.index for mark in plan.marks}) > policy.mark_budget:
        raise _bad(f"{len(plan.marks)} marks, at most {policy.mark_budget} are allowed")
    if any(before.index >= after.index for before, after in pairwise(plan.marks)):
        raise _bad("the marks are not in the order of their blocks, one for each")
    if policy.longer_ttl_first and any(
        before.seconds < after.seconds for before, after in pairwise(ttls)
    ):
        raise _bad("a longer lifetime comes after a shorter one")


def _bad(problem: str) -> RequestRefused:
    return RequestRefused(f"the cache plan does not fit the request: {problem}; plan it anew")
