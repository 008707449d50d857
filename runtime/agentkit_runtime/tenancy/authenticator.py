"""Finds out by their key who calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from agentkit_runtime.api.caller import Bounds, Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.tenancy.key import digest, is_key
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.records import KeyRecord, Snapshot
from agentkit_runtime.tenancy.terms import OPERATOR

KEY_HEADERS = ("x-api-key", "api-key")
"""Where clients send keys besides `Authorization: Bearer`: Anthropic's and Azure's."""


class KeyAuthenticator:
    """Knows the keys of a store."""

    def __init__(
        self,
        store: LiveStore,
        *,
        used: Callable[[str], None] = lambda key_id: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`used` is told the id of each key that is let in; `clock` gives Unix seconds."""
        self._store = store
        self._used = used
        self._clock = clock

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """The caller whose key is in `headers`. No message says anything of a key that was sent.

        Raises:
            ApiError: 401.
        """
        snapshot = self._store.now()
        record = self._known(_presented(headers), snapshot)
        state = record.state(self._clock())
        if state != "active":
            raise _refused(f"this API key is {state}; ask the operator for a new one")
        self._used(record.id)
        tenant = record.tenant or OPERATOR
        terms = snapshot.terms_of(tenant)
        return Caller(
            tenant=tenant,
            roles=record.roles,
            key_id=record.id,
            bounds=Bounds(max_tokens=terms.max_tokens, priority=terms.priority),
        )

    def _known(self, key: str, snapshot: Snapshot) -> KeyRecord:
        if not is_key(key):
            raise _refused("this is no API key of this server; perhaps a part of it is missing")
        # Looked up by its hash: how long that takes depends on bits that nobody can choose.
        record = snapshot.keys.get(digest(key))
        if record is None:
            raise _refused("this API key is unknown here")
        return record


def _presented(headers: Mapping[str, str]) -> str:
    """The one key that a request carries."""
    found = {headers[name].strip() for name in KEY_HEADERS if name in headers}
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.add(token.strip())
    found.discard("")
    if not found:
        raise _refused(
            "an API key is needed: send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`"
        )
    if len(found) > 1:
        raise _refused("the request carries several API keys; send one")
    return found.pop()


def _refused(message: str) -> ApiError:
    return ApiError(message, status=401, code="invalid_api_key")
