"""What the Claude API refuses, and what it renders of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from agentkit.caching.policy import AnthropicPolicy, BlockKind, Ttl
from agentkit.caching.request import Block, CacheRequest, Message, Messages, Role
from agentkit.caching.simulate.served import RefusalReason, Refused


def rendered(request: CacheRequest, policy: AnthropicPolicy) -> CacheRequest:
    """Return what the prompt holds: without stripped thinking, naming no default effort.

    Models up to Haiku 4.5 drop thinking that lies before the last user turn which is not made of
    tool results.
    """
    identity = request.identity
    if identity.effort is not None and identity.effort == policy.default_effort:
        request = replace(request, identity=replace(identity, effort=None))
    last = _first_kept_thinking(request, policy)
    if not last:
        return request
    messages = (*map(_without_thinking, request.messages[:last]), *request.messages[last:])
    return replace(request, messages=Messages(messages))


def shown_indexes(request: CacheRequest, policy: AnthropicPolicy) -> Sequence[int]:
    """Return which blocks are in the prompt: no deferred tools, no stripped thinking."""
    last = _first_kept_thinking(request, policy)
    if not last and not any(map(is_deferred, request.tools)):
        return range(request.n_blocks)
    found = [index for index, tool in enumerate(request.tools) if not is_deferred(tool)]
    at = len(request.tools) + len(request.system)
    found.extend(range(len(request.tools), at))
    for index, message in enumerate(request.messages):
        strips = index < last and message.role is Role.ASSISTANT
        for place, block in enumerate(message.blocks, at):
            if not (strips and block.kind in _THINKING):
                found.append(place)
        at += len(message.blocks)
    return found


def is_deferred(tool: Block) -> bool:
    """Return whether a tool is no part of the prompt."""
    return tool.kind is BlockKind.DEFERRED_TOOL


def automatic_mark(
    request: CacheRequest, policy: AnthropicPolicy
) -> tuple[int, Ttl] | Refused | None:
    """Return where the server sets the mark of the top-level `cache_control`: index and lifetime.

    None: not asked for, the same mark is there already, or nothing is eligible.
    """
    if request.automatic is None:
        return None
    if not policy.automatic_marks:
        return Refused(
            reason=RefusalReason.AUTOMATIC_UNAVAILABLE,
            message=f"top-level cache_control is not available on {policy.platform.value!r}; mark "
            "blocks instead",
        )
    ttl = request.automatic.ttl or policy.default_ttl
    blocks = [block for block in request.blocks if block.kind is not BlockKind.DEFERRED_TOOL]
    eligible = [index for index, block in enumerate(blocks) if is_markable(block, policy)]
    if not eligible:
        return None
    mark = blocks[eligible[-1]].mark
    if mark is not None and (mark.ttl or policy.default_ttl) is ttl:
        return None
    if mark is not None:
        return Refused(
            reason=RefusalReason.AUTOMATIC_CONFLICT,
            message=f"the last block is marked with another ttl than the automatic {ttl.value!r}; "
            "give both the same",
        )
    return eligible[-1], ttl


def refuse_marks(
    request: CacheRequest, policy: AnthropicPolicy, automatic: tuple[int, Ttl] | None
) -> Refused | None:
    """Return why the marks are refused, if they are."""
    allowed = [choice.ttl for choice in policy.ttls]
    marked: list[Ttl] = []
    for block in request.marked:
        assert block.mark is not None
        ttl = block.mark.ttl or policy.default_ttl
        if not is_markable(block, policy):
            what = "empty text" if block.kind is BlockKind.TEXT else block.kind.value
            return Refused(
                reason=RefusalReason.UNMARKABLE,
                message=f"cache_control on {what!r} is not permitted; mark a neighbour",
            )
        marked.append(ttl)
    if automatic is not None:
        marked.append(automatic[1])
    unknown = [ttl for ttl in marked if ttl not in allowed]
    if unknown:
        return Refused(
            reason=RefusalReason.UNKNOWN_TTL,
            message=f"ttl {unknown[0].value!r} is not one of {[ttl.value for ttl in allowed]!r}",
        )
    if len(marked) > policy.mark_budget:
        return Refused(
            reason=RefusalReason.TOO_MANY_MARKS,
            message=f"at most {policy.mark_budget} blocks with cache_control may be provided, "
            f"found {len(marked)!r}; the automatic one counts",
        )
    return _refuse_order(marked, policy)


def refuse_request(request: CacheRequest, policy: AnthropicPolicy) -> Refused | None:
    """Return why the request is refused, marks aside."""
    if request.prewarm:
        for conflict, is_there in _PREWARM_CONFLICTS:
            if is_there(request):
                return Refused(
                    reason=RefusalReason.PREWARM_CONFLICT,
                    message=f"max_tokens 0 cannot be combined with {conflict}; leave it out",
                )
    if _misplaces_system(request, policy):
        return Refused(
            reason=RefusalReason.SYSTEM_MESSAGE,
            message=f"{policy.model!r} takes no system messages in messages; use a user message",
        )
    return None


def takes_prewarm(request: CacheRequest, policy: AnthropicPolicy) -> bool:
    """Return whether the same request is taken with `max_tokens: 0`, if it is not streamed."""
    if _misplaces_system(request, policy):
        return False
    return not any(is_there(request) for what, is_there in _PREWARM_CONFLICTS if what != _STREAM)


def _misplaces_system(request: CacheRequest, policy: AnthropicPolicy) -> bool:
    return not policy.mid_conversation_system and Role.DEVELOPER in map(_ROLE, request.messages)


def _first_kept_thinking(request: CacheRequest, policy: AnthropicPolicy) -> int:
    """Return the message from which on thinking stays in the prompt."""
    if policy.keeps_thinking:
        return 0
    turns = (
        index
        for index in range(len(request.messages) - 1, -1, -1)
        if request.messages[index].role is Role.USER and not request.messages[index].is_tool_result
    )
    return next(turns, 0)


_THINKING = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)


def _without_thinking(message: Message) -> Message:
    if message.role is not Role.ASSISTANT:
        return message
    kept = tuple(block for block in message.blocks if block.kind not in _THINKING)
    # The same object where it is the same: what is known of it stays known.
    return message if len(kept) == len(message.blocks) else replace(message, blocks=kept)


_ROLE = attrgetter("role")


def is_markable(block: Block, policy: AnthropicPolicy) -> bool:
    """Return whether a block accepts `cache_control`. Empty text does not."""
    if block.kind is BlockKind.TEXT and not block.n_tokens:
        return False
    return block.kind in policy.markable


def _refuse_order(marked: list[Ttl], policy: AnthropicPolicy) -> Refused | None:
    if not policy.longer_ttl_first:
        return None
    for before, after in pairwise(marked):
        if before.seconds < after.seconds:
            return Refused(
                reason=RefusalReason.TTL_ORDER,
                message=f"a ttl={after.value!r} cache_control block must not come after a "
                f"ttl={before.value!r} cache_control block; put longer lifetimes first",
            )
    return None


_STREAM = "stream"
# docs 2026-08-21, pre-warming
_PREWARM_CONFLICTS: tuple[tuple[str, Callable[[CacheRequest], bool]], ...] = (
    (_STREAM, lambda request: request.stream),
    (
        "thinking of type enabled",
        lambda request: (request.identity.thinking or "").startswith("enabled"),
    ),
    ("output_config.format", lambda request: request.identity.output_format is not None),
    (
        "a tool_choice that forces a tool",
        lambda request: request.identity.tool_choice not in ("auto", "none"),
    ),
    ("batch", lambda request: request.terms.batch),
)
