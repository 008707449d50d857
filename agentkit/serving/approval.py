"""Calls that wait for a person, as forms that the client shows to its user.

A call may wait because an MCP server of the agent's own asks for values: then its form is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentkit.saved import Answer, Approve, Deny, PausedRun, PendingCall
from agentkit.toolset.caller import Accept

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp_types import ElicitRequest, ElicitResult

MODERN = "2026-07-28"
"""From this version on the client is asked by the answer to its request, and sends it again."""
_MAX_ARGUMENTS = 2_000
_NO_DECISION = "the user was asked, and has not agreed"
_DOES_NOT_FIT = "the values that are asked for were not given"
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "enum": ["approve", "deny"],
            "description": "Whether the call may run.",
        },
        "reason": {"type": "string", "description": "Why not, for the agent to read."},
    },
    "required": ["decision"],
}


def can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can show a form to its user, now."""
    capabilities = ctx.session.client_capabilities
    asks = None if capabilities is None else capabilities.elicitation
    if asks is None or (asks.form is None and asks.url is not None):
        return False
    return is_modern(ctx) or ctx.session.can_send_request


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client speaks a protocol without requests from the server."""
    return ctx.protocol_version >= MODERN


def forms(paused: PausedRun) -> dict[str, ElicitRequest]:
    """Return a form for each call that waits, by its id."""
    from mcp_types import ElicitRequest, ElicitRequestFormParams

    return {
        each.id: ElicitRequest(
            params=ElicitRequestFormParams(message=question(each), requested_schema=_form(each))
        )
        for each in paused.pending
    }


async def asked(ctx: ServerRequestContext[Any, Any], paused: PausedRun) -> Mapping[str, Answer]:
    """Ask a client of the handshake's protocols, call by call, and return the answers."""
    answers: dict[str, Answer] = {}
    for each in paused.pending:
        said = await ctx.session.elicit_form(
            question(each), _form(each), related_request_id=ctx.request_id
        )
        answers[each.id] = answer_of(said, each)
    return answers


def answers_of(paused: PausedRun, responses: Mapping[str, object]) -> Mapping[str, Answer]:
    """Return the answers that a client's responses give; calls that have none are denied."""
    return {each.id: answer_of(responses.get(each.id), each) for each in paused.pending}


def answer_of(said: ElicitResult | object, pending: PendingCall) -> Answer:
    """Return what a filled form says; whatever is no clear yes is a no."""
    content = getattr(said, "content", None) or {}
    reason = content.get("reason")
    is_accepted = getattr(said, "action", None) == "accept"
    asked_for = pending.question
    if is_accepted and asked_for is not None and asked_for.form is not None:
        return Accept(content) if asked_for.problem_with(content) is None else Deny(_DOES_NOT_FIT)
    if is_accepted and content.get("decision") == "approve":
        return agreed(pending)
    return Deny(reason if isinstance(reason, str) and reason else _NO_DECISION)


def agreed(pending: PendingCall) -> Answer:
    """Return a yes without any values."""
    if pending.question is None:
        return Approve()
    return Accept() if pending.question.form is None else Deny(_DOES_NOT_FIT)


def question(pending: PendingCall) -> str:
    """Return a call that waits, in words: who calls what with which arguments, or who asks what."""
    if (asked_for := pending.question) is not None:
        page = f" (visit {asked_for.url})" if asked_for.url else ""
        return f"{'/'.join(pending.path)}: {asked_for.server} asks: {asked_for.text}{page}"
    arguments = pending.call.arguments
    if len(arguments) > _MAX_ARGUMENTS:
        arguments = f"{arguments[:_MAX_ARGUMENTS]}... ({len(arguments):,} characters)"
    return f"{'/'.join(pending.path)} wants to call {pending.call.name} with {arguments or '{}'}"


def _form(pending: PendingCall) -> dict[str, Any]:
    asked_for = pending.question
    if asked_for is None or asked_for.form is None:
        return _FORM
    form: dict[str, Any] = json.loads(asked_for.form)
    return form
