"""Turns bodies of the admin API into what the engine is asked."""

from __future__ import annotations

import dataclasses
from typing import assert_never

from agentkit_runtime.api.admin import bodies
from agentkit_runtime.api.openai.decode import decode
from agentkit_runtime.api.openai.options import Templated
from agentkit_runtime.api.openai.request import ChatCompletionBody
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.prune import ByNamespace, ByPin, BySession, ByTag, ByTenant, Selector


def prefix_request(
    body: bodies.Prefix, service: Templated, *, tenant: str, request_id: str
) -> ChatRequest:
    """The request whose beginning is meant. Raises `ApiError` (400) where there can be none."""
    chat = ChatCompletionBody(
        model="",
        messages=body.messages,
        tools=body.tools,
        chat_template_kwargs=body.chat_template_kwargs,
    )
    decoded = decode(chat, request_id=request_id, service=service)
    return dataclasses.replace(decoded, tenant=tenant)


def explain_request(
    body: bodies.Explain, service: Templated, *, tenant: str, request_id: str
) -> ChatRequest:
    """The request that is asked about. Raises `ApiError` (400) where there can be none."""
    decoded = decode(body, request_id=request_id, service=service)
    return dataclasses.replace(decoded, tenant=tenant)


def selector(body: bodies.Prune, tenant: str) -> Selector | None:
    """What is to be pruned; None where it is said by messages."""
    match body.by:
        case "tenant":
            return ByTenant(tenant)
        case "session":
            return BySession(body.session or "", tenant)
        case "tag":
            return ByTag(body.tag or "", tenant)
        case "pin":
            return ByPin(body.pin or "")
        case "namespace":
            return ByNamespace(bytes.fromhex(body.namespace or ""))
        case "prefix":
            return None
    assert_never(body.by)


def hint(body: bodies.Hint, tenant: str) -> Hint:
    """What is expected."""
    match body.kind:
        case "waits":
            return SessionWaits(body.session or "", body.seconds or 0.0, tenant)
        case "done":
            return SessionDone(body.session or "", tenant)
        case "likely_next":
            return LikelyNext(frozenset(body.tags or ()), body.seconds or 0.0, tenant)
    assert_never(body.kind)
