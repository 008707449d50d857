"""Prefix hashes: where two requests are the same, for a cache and for a reader of its misses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentkit.caching.policy import Change, Invalidation, Section
from agentkit.caching.request import Block, CacheRequest, Message, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The end of a block: the prefix up to and with it."""

    key: bytes
    """Equal keys: equal blocks, settings and scope."""
    content: bytes
    """Equal contents: equal blocks and scope, whatever the settings."""
    n_tokens: int
    """Tokens of the whole prefix."""
    block: Block
    section: Section
    message: int | None
    """Index of its message; None in tools and system."""
    role: Role | None


def boundaries(
    request: CacheRequest,
    *,
    scope: Sequence[str],
    invalidations: Iterable[Invalidation],
) -> list[Boundary]:
    """Return the prefixes of a request, shortest first.

    Settings enter the hash at the first section that they can lose, so a change keeps what lies
    before it.
    """
    rules = tuple(invalidations)
    content = _digest(*(part.encode() for part in scope))
    key = content
    found: list[Boundary] = []
    for section, messages in _sections(request):
        key = _digest(key, section.encode(), *_settings(request, rules, section))
        content = _digest(content, section.encode())
        for index, message in enumerate(messages):
            for place, block in enumerate(message.blocks):
                data = block_data(block, role=message.role if place == 0 else None)
                key, content = _digest(key, data), _digest(content, data)
                is_message = section is Section.MESSAGES
                found.append(
                    Boundary(
                        key=key,
                        content=content,
                        n_tokens=block.n_tokens + (found[-1].n_tokens if found else 0),
                        block=block,
                        section=section,
                        message=index if is_message else None,
                        role=message.role if is_message else None,
                    )
                )
    return found


def extended(parent: bytes, blocks: Iterable[Block]) -> list[bytes]:
    """Return the keys of an assistant message's blocks behind the prefix with the key `parent`."""
    keys = []
    for place, block in enumerate(blocks):
        parent = _digest(parent, block_data(block, role=None if place else Role.ASSISTANT))
        keys.append(parent)
    return keys


def block_data(block: Block, *, role: Role | None) -> bytes:
    """Return what a block adds to a hash. `role` is given for the first block of a message.

    Marks are no part of it: a block that was marked once and is not any more is the same block.
    """
    return _digest(block.kind.encode(), block.digest, b"" if role is None else role.encode())


def changed_settings(
    before: Sequence[tuple[Change, str]], after: Sequence[tuple[Change, str]]
) -> list[str]:
    """Return the names of the settings that differ."""
    was = dict(before)
    return [change.value for change, value in after if was.get(change) != value]


def settings(
    request: CacheRequest, invalidations: Iterable[Invalidation]
) -> tuple[tuple[Change, str], ...]:
    """Return the values of all settings that entries are keyed by."""
    return tuple((rule.change, request.value_of(rule.change)) for rule in invalidations)


def _sections(
    request: CacheRequest,
) -> tuple[tuple[Section, tuple[Message, ...]], ...]:
    # Tools and system have no messages; one message with a role of no meaning carries each block.
    tools = tuple(Message(Role.DEVELOPER, (block,)) for block in request.tools)
    system = tuple(Message(Role.DEVELOPER, (block,)) for block in request.system)
    return (
        (Section.TOOLS, tools),
        (Section.SYSTEM, system),
        (Section.MESSAGES, request.messages),
    )


def _settings(
    request: CacheRequest, rules: tuple[Invalidation, ...], section: Section
) -> list[bytes]:
    return [
        f"{rule.change}={request.value_of(rule.change)}".encode()
        for rule in rules
        if (rule.or_from or rule.lost_from) is section
    ]


def _digest(*parts: bytes) -> bytes:
    # Lengths go in front of the parts, so that no two lists of parts hash the same bytes.
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(4, "big"))
        hashed.update(part)
    return hashed.digest()
