"""Prefix hashes: where two requests are the same, for a cache and for a reader of its misses."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import is_not

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


class Prefixes(list[Boundary]):
    """The prefixes of a request, shortest first, and their keys beside them."""

    def __init__(self, found: Iterable[Boundary] = (), keys: Iterable[bytes] = ()) -> None:
        """`keys`: those of `found`."""
        super().__init__(found)
        self.keys = list(keys)


def boundaries(
    request: CacheRequest,
    *,
    scope: Sequence[str],
    invalidations: Iterable[Invalidation],
    memory: PrefixMemory | None = None,
) -> Prefixes:
    """Return the prefixes of a request, shortest first.

    Settings enter the hash at the first section that they can lose, so a change keeps what lies
    before it. With a `memory` only what it does not remember is hashed.
    """
    hasher = _Hasher(scope, tuple(invalidations))
    if memory is None:
        return hasher.hashed(request)
    name = (*scope, request.keyed_by, _opening(request))
    return memory.prefixes(name, request, hasher)


class PrefixMemory:
    """Prefixes of earlier requests: a longer request is hashed from where they end.

    The requests of one run have the same beginning and the same settings, and are remembered under
    these. What was used longest ago goes first.
    """

    def __init__(self, max_prefixes: int = 100_000) -> None:
        """`max_prefixes`: how many are kept, of all requests together; one has about 500 bytes."""
        self._max_prefixes = max_prefixes
        self._n_prefixes = 0
        self._kept: OrderedDict[Hashable, _Hashed] = OrderedDict()

    def prefixes(self, name: Hashable, request: CacheRequest, hasher: _Hasher) -> Prefixes:
        """Return the prefixes of a request, and remember them under a name."""
        before = self._kept.pop(name, None)
        if before is None:
            found = hasher.hashed(request)
        else:
            self._n_prefixes -= len(before.prefixes)
            found = hasher.continued(request, before)
        self._kept[name] = _Hashed(request=request, prefixes=found, rules=hasher.rules)
        self._n_prefixes += len(found)
        while self._n_prefixes > self._max_prefixes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._n_prefixes -= len(dropped.prefixes)
        return Prefixes(found, found.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hashed:
    request: CacheRequest
    prefixes: Prefixes
    rules: tuple[Invalidation, ...]


class _Hasher:
    """Hashes the blocks of requests that have the same scope and settings."""

    def __init__(self, scope: Sequence[str], rules: tuple[Invalidation, ...]) -> None:
        self._scope = scope
        self.rules = rules
        """By which changes of settings are told."""

    def hashed(self, request: CacheRequest) -> Prefixes:
        """Return all prefixes of a request."""
        chain = _Chain()
        key = content = _digest(*(part.encode() for part in self._scope))
        for section, messages in _sections(request):
            key = _digest(key, section.encode(), *_settings(request, self.rules, section))
            content = _digest(content, section.encode())
            for index, message in enumerate(messages):
                key, content = chain.add(key, content, section, index, message)
        return chain.found

    def continued(self, request: CacheRequest, before: _Hashed) -> Prefixes:
        """Return the same, from where a request ends that was hashed before."""
        was, n_front = before.request, request.n_front
        is_same = _equal(request.tools, was.tools) and _equal(request.system, was.system)
        if not is_same or self.rules != before.rules:
            return self.hashed(request)
        chain = _Chain(before.prefixes)
        chain.replace(0, request.tools, was.tools)
        chain.replace(len(request.tools), request.system, was.system)
        starts = request.messages.starts
        n_same = min(len(request.messages), len(was.messages))
        # Messages that were there before are the same objects, but for a few that have other marks.
        for number in compress(count(), map(is_not, request.messages, was.messages)):
            message, old = request.messages[number], was.messages[number]
            if message.role is not old.role or not _equal(message.blocks, old.blocks):
                n_same = number
                break
            chain.replace(n_front + starts[number], message.blocks, old.blocks)
        at = n_front + starts[n_same]
        if at == n_front:
            return self.hashed(request)
        chain.cut(at)
        key, content = chain.found[-1].key, chain.found[-1].content
        for number, message in enumerate(request.messages[n_same:], n_same):
            key, content = chain.add(key, content, Section.MESSAGES, number, message)
        return chain.found


class _Chain:
    """Prefixes, as they are found."""

    def __init__(self, found: Prefixes | None = None) -> None:
        self.found = Prefixes() if found is None else Prefixes(found, found.keys)

    def cut(self, n_kept: int) -> None:
        """Keep the first ones only."""
        del self.found[n_kept:]
        del self.found.keys[n_kept:]

    def add(
        self, key: bytes, content: bytes, section: Section, index: int, message: Message
    ) -> tuple[bytes, bytes]:
        """Add the prefixes that end in a message; returns key and content of the last."""
        n_tokens = self.found[-1].n_tokens if self.found else 0
        is_message = section is Section.MESSAGES
        for place, block in enumerate(message.blocks):
            data = block_data(block, role=message.role if place == 0 else None)
            key, content = _digest(key, data), _digest(content, data)
            n_tokens += block.n_tokens
            self.found.keys.append(key)
            self.found.append(
                Boundary(
                    key=key,
                    content=content,
                    n_tokens=n_tokens,
                    block=block,
                    section=section,
                    message=index if is_message else None,
                    role=message.role if is_message else None,
                )
            )
        return key, content

    def replace(self, at: int, blocks: Sequence[Block], old: Sequence[Block]) -> None:
        """Take blocks that hash like the old ones and have other marks."""
        if blocks is old:
            return
        for place, (block, was) in enumerate(zip(blocks, old, strict=True), at):
            if block is not was:
                self.found[place] = _with_block(self.found[place], block)


def _with_block(prefix: Boundary, block: Block) -> Boundary:
    return Boundary(
        key=prefix.key,
        content=prefix.content,
        n_tokens=prefix.n_tokens,
        block=block,
        section=prefix.section,
        message=prefix.message,
        role=prefix.role,
    )


def _equal(blocks: Sequence[Block], old: Sequence[Block]) -> bool:
    """Whether blocks are the same but for their marks."""
    if blocks is old:
        return True
    return len(blocks) == len(old) and all(
        block is was
        or (
            block.digest == was.digest and block.kind is was.kind and block.n_tokens == was.n_tokens
        )
        for block, was in zip(blocks, old, strict=True)
    )


def _opening(request: CacheRequest) -> tuple[bytes, ...]:
    """Return what runs differ by first: the blocks of the first message."""
    return tuple(block.digest for message in request.messages[:1] for block in message.blocks)


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
