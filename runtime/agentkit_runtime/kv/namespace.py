"""Which root of the radix tree a caller may read and write.

A root is named by a keyed digest of who asks (tenant, permissions) and of everything that changes
the numbers in the KV (weights, dtypes, tokenizer, template, adapter). Without the key nobody can
name another tenant's root, and KV of other weights can never match.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_DOMAIN = b"agentkit-kv-namespace/2"
_MIN_KEY_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What the numbers in a slot depend on besides the tokens. Fingerprints are opaque strings."""

    weights: str
    """Fingerprint of the weights; changes whenever they do."""
    dtype: str
    """Compute dtype."""
    kv_dtype: str
    """Dtype or codec of the stored keys and values."""
    tokenizer: str
    """Fingerprint of the tokenizer."""
    template: str
    """Fingerprint of the chat template."""
    adapter: str | None = None
    """Fingerprint of a LoRA or other adapter; None is the bare model."""
    epoch: int = 0
    """Raised when weights or adapter are changed in place, under the same fingerprints."""


@dataclass(frozen=True, slots=True, repr=False)
class NamespaceKeys:
    """The key that names roots now, and earlier ones, which are refused when they come again.

    Only `current` names anything: after a rotation every tenant starts cold.
    """

    current: bytes
    previous: tuple[bytes, ...] = ()
    """Newest first."""

    def __post_init__(self) -> None:
        for key in (self.current, *self.previous):
            _require_key(key)
        if len({self.current, *self.previous}) <= len(self.previous):
            raise ValueError("a namespace key is used twice; rotate to a new one")

    def rotate(self, key: bytes) -> NamespaceKeys:
        """The same with a new current key."""
        return NamespaceKeys(key, (self.current, *self.previous))

    def digest(self, *, tenant: str, permissions: Sequence[str], identity: Identity) -> bytes:
        """The root to use; see `namespace_digest`."""
        return namespace_digest(
            self.current, tenant=tenant, permissions=permissions, identity=identity
        )

    def __repr__(self) -> str:
        return f"NamespaceKeys(<secret>, {len(self.previous)} previous)"


def namespace_digest(
    key: bytes, *, tenant: str, permissions: Sequence[str], identity: Identity
) -> bytes:
    """HMAC-SHA256 (32 bytes) over tenant, permissions and identity.

    Fields are framed by their length, so no two different inputs give the same message. Permissions
    are a set: order and repetition do not matter. `tenant` comes from authentication, never from a
    request body. Raises ValueError for a key under 16 bytes.
    """
    _require_key(key)
    if isinstance(permissions, str):
        raise ValueError(f"permissions must be a list of strings, got the string {permissions!r}")
    message = hmac.new(key, digestmod=hashlib.sha256)
    for part in (
        _DOMAIN,
        _encode([tenant]),
        _encode(sorted(set(permissions))),
        _encode([identity.weights, identity.dtype, identity.kv_dtype]),
        _encode([identity.tokenizer, identity.template]),
        _encode([] if identity.adapter is None else [identity.adapter]),
        _encode([str(identity.epoch)]),
    ):
        message.update(part)
    return message.digest()


def _require_key(key: bytes) -> None:
    if len(key) < _MIN_KEY_BYTES:
        raise ValueError(
            f"the namespace key must have at least {_MIN_KEY_BYTES} bytes, got {len(key)!r}; "
            "use secrets.token_bytes(32)"
        )


def _encode(fields: Iterable[str]) -> bytes:
    """The number of fields, then each field behind its length."""
    # A lone surrogate in a name is no reason to fail here; the encoding stays one to one.
    encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
    framed = [len(field).to_bytes(8, "little") + field for field in encoded]
    return len(encoded).to_bytes(8, "little") + b"".join(framed)
