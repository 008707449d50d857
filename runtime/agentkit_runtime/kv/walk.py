"""How far a prompt is cached, and where it parts from what is cached."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.kv.node import Node, RootNode
from agentkit_runtime.kv.tokens import TOKEN_BYTES, common_prefix, count, unpack

CONTEXT_TOKENS = 64
"""Most tokens of the other branch that a walk shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Where the tokens that were looked up leave the cached ones. Only what the caller may read."""

    n_tokens: int
    """Tokens looked up."""
    matched: int
    """Leading tokens that are cached."""
    public: int
    """Of them, those of a published prefix."""
    asked: int | None
    """The first token that is not cached; None when all are."""
    cached: int | None
    """The cached token in its place, on the branch used last; None when nothing goes on there:
    never seen, or evicted."""
    branch: bytes
    """That branch from there on, packed, at most `CONTEXT_TOKENS`."""
    branch_tokens: int
    """Tokens by which that branch goes on."""
    uses_ago: int
    """Uses of the cache since that branch was last used."""


def walk(root: RootNode | None, tokens: bytes, *, public: int, now: int) -> Walk:
    """Look `tokens` up below `root` without a trace. `public` tokens precede a missing root."""
    matched, rest, ahead = (public, b"", None) if root is None else _part(root, tokens)
    branch = rest
    n_ahead = count(rest)
    last_used = now
    if ahead is not None:
        last_used = ahead.last_used
        while ahead.children:
            ahead = max(ahead.children.values(), key=lambda node: node.last_used)
            if count(branch) < CONTEXT_TOKENS:
                branch += ahead.edge
            n_ahead += ahead.extent.length
    at = matched * TOKEN_BYTES
    return Walk(
        n_tokens=count(tokens),
        matched=matched,
        public=public,
        asked=unpack(tokens[at : at + TOKEN_BYTES])[0] if at < len(tokens) else None,
        cached=unpack(branch[:TOKEN_BYTES])[0] if branch else None,
        branch=branch[: CONTEXT_TOKENS * TOKEN_BYTES],
        branch_tokens=n_ahead,
        uses_ago=now - last_used,
    )


def _part(root: RootNode, tokens: bytes) -> tuple[int, bytes, Node | None]:
    """Tokens matched, what is left of the edge they end in, and the node ahead (or the last)."""
    node: Node = root
    offset = root.start * TOKEN_BYTES
    while offset < len(tokens):
        child = node.children.get(tokens[offset : offset + TOKEN_BYTES])
        if child is None:
            break
        if not tokens.startswith(child.edge, offset):
            known = common_prefix(tokens, offset, child.edge)
            return offset // TOKEN_BYTES + known, child.edge[known * TOKEN_BYTES :], child
        offset += len(child.edge)
        node = child
    return offset // TOKEN_BYTES, b"", node
