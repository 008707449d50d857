"""Options that Chat Completions, Completions and Responses share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Protocol

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.types import Priority

ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast"]

_TIERS: Mapping[ServiceTier, tuple[Priority, str]] = MappingProxyType(
    {
        "auto": (Priority.NORMAL, "default"),
        "default": (Priority.NORMAL, "default"),
        "scale": (Priority.NORMAL, "default"),
        "flex": (Priority.BATCH, "flex"),
        "priority": (Priority.INTERACTIVE, "priority"),
        "fast": (Priority.INTERACTIVE, "priority"),
    }
)
"""What a tier means here, and what answers call the one that was served."""

_NOT_THINKING = ("none", "minimal")

MAX_KEY_CHARS = 256


def priority_of(tier: ServiceTier | None) -> Priority:
    """How soon requests of a tier are served."""
    return Priority.NORMAL if tier is None else _TIERS[tier][0]


def served_tier(tier: ServiceTier | None) -> str | None:
    """What the answer says; None where the request named none."""
    return None if tier is None else _TIERS[tier][1]


class Templated(Protocol):
    """What a service knows of its chat template."""

    @property
    def thinks(self) -> bool:
        """Whether the model's family thinks before it answers."""

    def template_has(self, option: str) -> bool:
        """Whether the template looks at a variable."""


def thinking_options(effort: str | None, service: Templated) -> dict[str, bool | str]:
    """The template's variables for a reasoning effort."""
    if effort is None:
        return {}
    if service.template_has("reasoning_effort"):
        return {"reasoning_effort": effort}
    for switch in ("enable_thinking", "thinking"):
        if service.template_has(switch):
            return {switch: effort not in _NOT_THINKING}
    return {}


def ignores_effort(effort: str | None, service: Templated) -> bool:
    """Whether an effort changes nothing, though another one is wanted than the model's own.

    A family that never thinks does so at every effort alike; one that always does cannot be told
    not to.
    """
    if effort is None or thinking_options(effort, service):
        return False
    return service.thinks != (effort not in _NOT_THINKING)


def checked_key(key: str | None) -> str | None:
    """A `prompt_cache_key` as the name of a session. Raises `ApiError` for one that is too long."""
    if key is not None and len(key) > MAX_KEY_CHARS:
        raise ApiError(
            f"prompt_cache_key has {len(key)} characters, at most {MAX_KEY_CHARS} are taken",
            param="prompt_cache_key",
        )
    return key or None


def checked_bias(bias: Mapping[str, float] | None) -> tuple[tuple[int, float], ...]:
    """`logit_bias` as pairs. Raises `ApiError` for keys that are no token ids."""
    pairs: list[tuple[int, float]] = []
    for key, value in (bias or {}).items():
        if not (key.isascii() and key.isdigit()):
            raise ApiError(
                f"logit_bias has the key {key[:20]!r}; keys are token ids, as decimal digits",
                param="logit_bias",
                code="invalid_value",
            )
        pairs.append((int(key), value))
    return tuple(pairs)


def refuse_unsupported(
    extra: Mapping[str, object] | None, harmless: Mapping[str, tuple[object, ...]]
) -> None:
    """Raise `ApiError` for a field that would change the answer if it were obeyed.

    `harmless` names such fields, and the values besides null that change nothing.
    """
    for field, value in (extra or {}).items():
        values = harmless.get(field)
        if values is not None and value is not None and value not in values:
            raise ApiError(
                f"{field} is not supported by this server; leave it out",
                param=field,
                code="unsupported_parameter",
            )
