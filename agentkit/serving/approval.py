"""Calls that wait for a person, as forms that the client shows to its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentkit.saved import Answer, Approve, Deny, PausedRun, PendingCall

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp_types import ElicitRequest, ElicitResult

MODERN = "2026-07-28"
"""From this version on the client is asked by the answer to its request, and sends it again."""
_MAX_ARGUMENTS = 2_000
_NO_DECISION = "the user was asked, and has not agreed"
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
            params=ElicitRequestFormParams(message=question(each), requested_schema=_FORM)
        )
        for each in paused.pending
    }


async def asked(ctx: ServerRequestContext[Any, Any], paused: PausedRun) -> Mapping[str, Answer]:
    """Ask a client of the handshake's protocols, call by call, and return the answers."""
    answers: dict[str, Answer] = {}
    for each in paused.pending:
        said = await ctx.session.elicit_form(
            question(each), _FORM, related_request_id=ctx.request_id
        )
        answers[each.id] = answer_of(said)
    return answers


def answers_of(paused: PausedRun, responses: Mapping[str, object]) -> Mapping[str, Answer]:
    """Return the answers that a client's responses give; calls that have none are denied."""
    return {each.id: answer_of(responses.get(each.id)) for each in paused.pending}


def answer_of(said: ElicitResult | object) -> Answer:
    """Return what a filled form says; whatever is no clear yes is a no."""
    content = getattr(said, "content", None) or {}
    reason = content.get("reason")
    if getattr(said, "action", None) == "accept" and content.get("decision") == "approve":
        return Approve()
    return Deny(reason if isinstance(reason, str) and reason else _NO_DECISION)


def question(pending: PendingCall) -> str:
    """Return a call that waits, in words: who calls what with which arguments."""
    arguments = pending.call.arguments
    if len(arguments) > _MAX_ARGUMENTS:
        arguments = f"{arguments[:_MAX_ARGUMENTS]}... ({len(arguments):,} characters)"
    return f"{'/'.join(pending.path)} wants to call {pending.call.name} with {arguments or '{}'}"
