"""What is learnt about a server from its answers: fields that it refuses, counts that it hides."""

from __future__ import annotations

import re

from agentkit.caching.policy import UsageField
from agentkit.errors import ModelError, RequestRefused
from agentkit.models.hosted.openai_chat.body import ChatBody, dropped_with
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.openai_common import (
    UNKNOWN_FIELD,
    CacheFieldsRefusedWarning,
    says_unknown,
)
from agentkit.models.hosted.wire import Body
from agentkit.usage import Usage
from agentkit.warn import warn_user

_ONE_SYSTEM = re.compile(
    r"system message must|only (one|a single) system|system (role|message)s? .*(first|beginning)",
    re.IGNORECASE,
)
"""How chat templates say that they take one system message."""


class CacheUnreportedWarning(UserWarning):
    """A server does not say what it reads from its cache."""


class Refusals:
    """What a server refuses, remembered for the adapter's life."""

    def __init__(self, label: str, profile: Profile, *, one_system_message: bool) -> None:
        self._label = label
        self._profile = profile
        self.fields: frozenset[str] = frozenset()
        """Fields that the server does not know."""
        self.one_system_message = one_system_message
        """Whether its chat template takes only one."""

    def spared(self, body: Body, error: RequestRefused) -> frozenset[str]:
        """Return the fields that the refusal may call unknown, and that can be left out."""
        if not isinstance(body, ChatBody):
            return frozenset()
        message = str(error)
        named = frozenset(name for name in body.optional if says_unknown(message, name))
        is_about_another = any(name in message for name in body.kept | body.optional)
        if not is_about_another and UNKNOWN_FIELD.search(message):
            named = body.optional
        return dropped_with(named, self._profile) if named else named

    def learn(self, without: frozenset[str]) -> None:
        """The server took a request without these fields."""
        new = without - self.fields
        if new:
            self.fields |= new
            warn_user(
                f"{self._label}: the server does not know {sorted(new)}; requests go without, "
                "and less may be cached than planned",
                CacheFieldsRefusedWarning,
            )

    def explained(self, error: RequestRefused) -> ModelError:
        """Return the error; a retryable one where the next request will be laid out otherwise."""
        if self.one_system_message or not _ONE_SYSTEM.search(str(error)):
            return error
        self.one_system_message = True
        return ModelError(
            f"{error}; asking again with one system message (to begin with one, pass "
            "options=ChatOptions(one_system_message=True))",
            retryable=True,
        )


class Silence:
    """Notices a server that never says what it reads.

    The first time may be a miss, which some servers do not report either.
    """

    def __init__(self, label: str, where: UsageField) -> None:
        self._label = label
        self._flag = where.flag
        self._n_silent = 0
        self._has_spoken = False

    def note(self, usage: Usage) -> str | None:
        """Return what would make the server report its reads; None if it does or nothing would."""
        if usage.cache_read_tokens is not None:
            self._has_spoken = True
        if self._has_spoken or self._flag is None:
            return None
        self._n_silent += 1
        note = f"the server does not report its cache; start it with {self._flag}"
        if self._n_silent == 2:
            warn_user(f"{self._label}: {note}", CacheUnreportedWarning)
        return note
