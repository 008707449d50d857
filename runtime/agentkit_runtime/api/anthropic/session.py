"""Which conversation a request belongs to, as far as `metadata.user_id` tells it.

The field names a user. Coding agents put the conversation into it, too, which is what the cache can
use: `user_<hash>_account_<uuid>_session_<uuid>`, or a JSON object with a `session_id`.
"""

from __future__ import annotations

import json
import re

_SESSION = re.compile(r"_session_([0-9a-fA-F-]{36})$")
_MAX_CHARS = 256


def session_of(user_id: str | None) -> str | None:
    """The conversation's name; None where the field only names a user."""
    if user_id is None:
        return None
    found = _SESSION.search(user_id)
    if found is not None:
        return found[1]
    if not user_id.startswith("{"):
        return None
    try:
        value = json.loads(user_id)
    except (ValueError, RecursionError):
        return None
    session = value.get("session_id")
    return session if isinstance(session, str) and 0 < len(session) <= _MAX_CHARS else None
