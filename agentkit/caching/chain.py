"""Prefix hashes: where two requests are the same, for a cache and for a reader of its misses."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from itertools import compress, count
from operator import attrgetter, eq, is_not
from typing import NamedTuple

from agentkit.caching.policy import Change, Invalidation, Section
from agentkit.caching.request import Block, CacheRequest, Message, Role


class Boundary(NamedTuple):
    """The end of a block: the prefix up to and with it."""

    key: bytes
    """Equal keys: equal blocks, settings and scope."""
    content: bytes
    """Equal contents: equal blocks and scope, whatever the settings."""
    n_tokens: int
    """Tokens of the whole prefix."""
    block: Block
    """As it was hashed: a request that was hashed later may mark and measure it otherwise."""
    section: Section
    message: int | None
    """Index of its message; None in tools and system."""
    role: Role | None


class Prefixes(tuple[Boundary, ...]):
    """The prefixes of a request, shortest first, with what is known of all of them."""

    keys: tuple[bytes, ...]
    """Those of the prefixes."""
    settings: tuple[tuple[Change, str], ...]
    """What the request's entries are keyed by, beside the blocks."""

    @staticmethod
    def of(
        found: Iterable[Boundary],
        keys: Iterable[bytes],
        settings: tuple[tuple[Change, str], ...],
    ) -> Prefixes:
        """Return prefixes; `keys` are theirs."""
        made = Prefixes(found)
        made.keys, made.settings = tuple(keys), settings
        return made


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
        self._kept[name] = _Hashed(request, found, hasher.rules)
        self._n_prefixes += len(found)
        while self._n_prefixes > self._max_prefixes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._n_prefixes -= len(dropped.prefixes)
        return found


class _Hashed(NamedTuple):
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
        chain = _Chain([], [])
        key = content = _digest(*(part.encode() for part in self._scope))
        for section, messages in _sections(request):
            key = _digest(key, section.encode(), *_settings(request, self.rules, section))
            content = _digest(content, section.encode())
            for index, message in enumerate(messages):
                key, content = chain.add(key, content, section, index, message)
        return Prefixes.of(chain.found, chain.keys, settings(request, self.rules))

    def continued(self, request: CacheRequest, before: _Hashed) -> Prefixes:
        """Return the same, from where a request ends that was hashed before.

        Only new blocks are hashed: other marks and other lengths leave a hash as it is.
        """
        was, known = before.request, before.prefixes
        same_rules = self.rules is before.rules or self.rules == before.rules
        if request is was and same_rules:
            return known
        n_same, at, resized = _common(request, was)
        if at <= request.n_front or not same_rules:
            return self.hashed(request)
        is_same = at == len(known) and n_same == len(request.messages)
        if is_same and resized is None:
            return known
        chain = _Chain(list(known[:at]), list(known.keys[:at]))
        if resized is not None:
            chain.resize(request.blocks[resized:at], resized)
        key, content = chain.found[-1].key, chain.found[-1].content
        for number, message in enumerate(request.messages[n_same:], n_same):
            key, content = chain.add(key, content, Section.MESSAGES, number, message)
        return Prefixes.of(chain.found, chain.keys, known.settings)


def _common(request: CacheRequest, was: CacheRequest) -> tuple[int, int, int | None]:
    """Return how many messages hash the same in both, and how many blocks that are with the front.

    Third comes the first of these blocks whose length may be another, if there is one.
    """
    n_front, starts = request.n_front, request.messages.starts
    front, old_front = (request.tools, request.system), (was.tools, was.system)
    if not all(map(_equal, front, old_front)):
        return 0, 0, None
    resized = None if all(map(_as_long, front, old_front)) else 0
    n_same = min(len(request.messages), len(was.messages))
    # Messages that were there before are the same objects, but for a few that have other marks or
    # lengths.
    for number in compress(count(), map(is_not, request.messages, was.messages)):
        message, old = request.messages[number], was.messages[number]
        if message.role is not old.role or not _equal(message.blocks, old.blocks):
            n_same = number
            break
        if resized is None and not _as_long(message.blocks, old.blocks):
            resized = n_front + starts[number]
    return n_same, n_front + starts[n_same], resized


class _Chain(NamedTuple):
    """Prefixes, as they are found."""

    found: list[Boundary]
    keys: list[bytes]

    def add(
        self, key: bytes, content: bytes, section: Section, index: int, message: Message
    ) -> tuple[bytes, bytes]:
        """Add the prefixes that end in a message; returns key and content of the last."""
        n_tokens = self.found[-1].n_tokens if self.found else 0
        number, role = (index, message.role) if section is Section.MESSAGES else (None, None)
        for place, block in enumerate(message.blocks):
            data = block_data(block, role=message.role if place == 0 else None)
            key, content = _joined(key, data), _joined(content, data)
            n_tokens += block.n_tokens
            self.keys.append(key)
            self.found.append(Boundary(key, content, n_tokens, block, section, number, role))
        return key, content

    def resize(self, blocks: Sequence[Block], at: int) -> None:
        """Measure the prefixes that end in these blocks anew; the first of them ends at `at`."""
        n_tokens = self.found[at - 1].n_tokens if at else 0
        for place, block in enumerate(blocks, at):
            n_tokens += block.n_tokens
            self.found[place] = self.found[place]._replace(n_tokens=n_tokens)


def _equal(blocks: Sequence[Block], old: Sequence[Block]) -> bool:
    """Whether blocks hash the same: they may have other marks and lengths."""
    if blocks is old:
        return True
    if len(blocks) != len(old):
        return False
    for block, was in zip(blocks, old, strict=True):
        if block is not was and (block.digest != was.digest or block.kind is not was.kind):
            return False
    return True


def _as_long(blocks: Sequence[Block], old: Sequence[Block]) -> bool:
    """Whether blocks that hash the same have the same lengths."""
    return blocks is old or all(map(eq, map(_N_TOKENS, blocks), map(_N_TOKENS, old)))


_N_TOKENS = attrgetter("n_tokens")


def _opening(request: CacheRequest) -> tuple[bytes, ...]:
    """Return what runs differ by first: the blocks of the first message."""
    return tuple(block.digest for message in request.messages[:1] for block in message.blocks)


def extended(parent: bytes, blocks: Iterable[Block]) -> list[bytes]:
    """Return the keys of an assistant message's blocks behind the prefix with the key `parent`."""
    keys = []
    for place, block in enumerate(blocks):
        parent = _joined(parent, block_data(block, role=None if place else Role.ASSISTANT))
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
    framed = [piece for part in parts for piece in (len(part).to_bytes(4, "big"), part)]
    return hashlib.blake2b(b"".join(framed), digest_size=_DIGEST_SIZE).digest()


def _joined(first: bytes, second: bytes) -> bytes:
    """Return the digest of two digests, which are of one length."""
    framed = _DIGEST_FRAME + first + _DIGEST_FRAME + second
    return hashlib.blake2b(framed, digest_size=_DIGEST_SIZE).digest()


_DIGEST_SIZE = 16
_DIGEST_FRAME = _DIGEST_SIZE.to_bytes(4, "big")
