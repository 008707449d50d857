"""Documents of the admin API, made from what the engine says."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

from agentkit_runtime.api.admin.wire import (
    MissDocument,
    NodeDocument,
    PinDocument,
    PrewarmedDocument,
    PruneDocument,
    SessionDocument,
    TreeDocument,
)
from agentkit_runtime.kv.pins import Pin
from agentkit_runtime.kv.prune import PruneReport
from agentkit_runtime.kv.tiers.base import Medium
from agentkit_runtime.kv.tokens import unpack
from agentkit_runtime.kv.view import NodeView, SessionView, TreeView

if TYPE_CHECKING:
    from agentkit_runtime.miss import MissReport
    from agentkit_runtime.prefixes import Prewarmed
    from agentkit_runtime.text.tokenizer import Tokenizer

_MISS_TEXTS = ("detail", "before", "asked", "cached")


def tree_document(view: TreeView, tokenizer: Tokenizer | None) -> TreeDocument:
    """The tree; with `tokenizer` also the text of each node's first tokens."""
    return {
        "object": "tree",
        "namespaces": view.namespaces,
        "total_tokens": view.total_tokens,
        "complete": view.complete,
        "nodes": [_node(node, tokenizer) for node in view.nodes],
    }


def _node(node: NodeView, tokenizer: Tokenizer | None) -> NodeDocument:
    document: NodeDocument = {
        "id": node.id,
        "parent": node.parent,
        "tenant": node.tenant,
        "start": node.start,
        "tokens": node.tokens,
        "hits": node.hits,
        "uses_ago": node.uses_ago,
        "locks": node.locks,
        "locked": node.locks > 0,
        "pinned": node.pinned,
        "pins": list(node.pins),
        "published": node.published,
        "sessions": list(node.sessions),
        "tags": list(node.tags),
        "children": node.children,
        "medium": Medium.DEVICE.value,
    }
    if tokenizer is not None:
        document["text"] = tokenizer.decode(unpack(node.token_ids), skip_special=False)
    return document


def session_document(session: SessionView) -> SessionDocument:
    """A session."""
    return {
        "tenant": session.tenant,
        "session": session.session,
        "tags": list(session.tags),
        "expected": session.expected,
        "done": session.done,
        "tokens": session.tokens,
        "requests": session.requests,
    }


def pin_document(pin: Pin, expires_in_s: float | None) -> PinDocument:
    """A pin, and in how many seconds it ends if nobody uses it."""
    return {
        "handle": pin.handle,
        "tenant": pin.tenant,
        "name": pin.name,
        "tokens": pin.tokens,
        "ttl_s": pin.ttl_s,
        "expires_in_s": expires_in_s,
    }


def prewarmed_document(done: Prewarmed) -> PrewarmedDocument:
    """What a pre-warming did; a new pin has all of its time before it."""
    return {
        "tokens": done.tokens,
        "cached_tokens": done.cached_tokens,
        "pin": None if done.pin is None else pin_document(done.pin, done.pin.ttl_s),
    }


def prune_document(report: PruneReport) -> PruneDocument:
    """What a prune did."""
    return {
        "freed_tokens": report.freed_tokens,
        "condemned_tokens": report.condemned_tokens,
        "nodes": report.nodes,
        "pins": report.pins,
        "dry_run": report.dry_run,
    }


def miss_document(report: MissReport, *, with_text: bool) -> MissDocument:
    """Why a prompt would miss; without text there is nothing of what others have asked."""
    left_out = () if with_text else _MISS_TEXTS
    document = {
        name: value for name, value in dataclasses.asdict(report).items() if name not in left_out
    }
    return cast("MissDocument", document)
