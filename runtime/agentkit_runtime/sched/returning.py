"""Which sessions are expected back, as the framework has hinted."""

from __future__ import annotations

from collections import OrderedDict

from agentkit_runtime.kv.hints import MAX_EXPECTED_S, Hint, SessionDone, SessionWaits
from agentkit_runtime.kv.scope import Scope

MAX_SESSIONS = 4096
"""Most sessions that are remembered; those hinted at first are forgotten first."""


class ExpectedSessions:
    """Sessions that wait for a tool, until their next request or their time is over."""

    def __init__(self) -> None:
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def note(self, hint: Hint, now_s: float) -> None:
        """Take a hint; those that are about other things change nothing."""
        if isinstance(hint, SessionWaits):
            key = hint.tenant, hint.session
            self._until.pop(key, None)
            self._until[key] = now_s + min(hint.expected_s, MAX_EXPECTED_S)
            if len(self._until) > MAX_SESSIONS:
                self._until.popitem(last=False)
        elif isinstance(hint, SessionDone):
            self._until.pop((hint.tenant, hint.session), None)

    def came(self, scope: Scope, now_s: float) -> bool:
        """A request has come: was it expected now? It is not expected a second time."""
        if scope.session is None:
            return False
        return self._until.pop((scope.tenant, scope.session), -1.0) >= now_s
