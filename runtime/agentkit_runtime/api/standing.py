"""Whether the key of a request would still be let in, while the request is answered."""

from __future__ import annotations

import time
from collections.abc import Callable

from agentkit_runtime.api.caller import Caller, Role
from agentkit_runtime.api.failure import ApiError

RECHECKED_S = 0.5
"""A key is looked up again after so long, and not at each token: a look costs about as much."""


class Standing:
    """One request's. Used in the server's event loop."""

    def __init__(
        self,
        caller_now: Callable[[], Caller],
        *,
        role: Role = "user",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`caller_now` authenticates once more, and raises `ApiError` as the first time.

        `clock` gives monotonic seconds.
        """
        self._caller_now = caller_now
        self._role = role
        self._clock = clock
        self._due_s = clock() + RECHECKED_S
        self._refusal: ApiError | None = None

    def refusal(self) -> ApiError | None:
        """Why the key is let in no more; None while it is. What was refused once stays so."""
        now_s = self._clock()
        if self._refusal is None and now_s >= self._due_s:
            self._due_s = now_s + RECHECKED_S
            self._refusal = self._looked()
        return self._refusal

    def _looked(self) -> ApiError | None:
        try:
            caller = self._caller_now()
        except ApiError as refusal:
            return refusal
        if self._role not in caller.roles:
            return ApiError(
                f"this key has no {self._role} role any more", status=403, code="permission_denied"
            )
        return None
