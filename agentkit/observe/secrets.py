"""Takes secrets out of text that is about to be logged."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HIDDEN = "[hidden]"
_NAME = re.compile(
    r"(?i)[\w-]*api[-_]?key|(proxy-)?authorization|password|passwd|[\w-]*secret|[\w-]*token"
    r"|(set-)?cookie"
)
"""Names of fields whose text is a secret."""
_PATTERNS = (
    # A name, then a value: `api_key=...`, `"Authorization": "Bearer ..."`, `?key=...`.
    re.compile(
        r"""(?ix)
        ( \b (?: [\w-]*api[-_]?key | authorization | proxy-authorization | password | passwd
               | [\w-]*secret | [\w-]*token | cookie | set-cookie | x-goog-api-key | (?<=[?&])key )
          ["']? \s* [:=] \s* ["']? (?: (?:bearer|basic) \s+ )? )
        [^\s"',;&}\])]{4,}
        """
    ),
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"),
    # Keys that show by their form what they are.
    re.compile(
        r"()\b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|ghs|github_pat|glpat|xox[abeprs])"
        r"[-_][A-Za-z0-9_-]{12,}"
    ),
    re.compile(r"()\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"()\bAKIA[A-Z0-9]{12,}"),
    re.compile(r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    re.compile(r"(://[^\s:/@]+:)[^\s/@]+(?=@)"),
)


def without_secrets(text: str) -> str:
    """Return the text with what looks like a key, a token or a password replaced by `[hidden]`.

    A net with holes: what must not be logged should not be given to a logger.
    """
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{_HIDDEN}", text)
    return text


def cleaned(value: object) -> object:
    """Return a value without secrets in any text of it, and in no field that is named like one."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {
            key: _HIDDEN if isinstance(item, str) and _NAME.fullmatch(str(key)) else cleaned(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    return value
