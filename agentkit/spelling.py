"""Finds names that a subclass has misspelt: what nobody calls or reads is said, not kept silently.

A name of one's own is told from a misspelt one by how near it is, and whether its value would do.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Mapping
from typing import Any

from agentkit.errors import ConfigurationError

_NEAR = 0.8
"""Share of letters in common from which a method is taken for a hook."""
_NEAR_SETTING = 0.85
_ELSEWHERE: Mapping[str, str] = {
    "system_prompt": "instructions",
    "system": "instructions",
    "prompt": "instructions",
    "result_type": "output_type",
    "output": "output_type",
    "response_model": "output_type",
}
"""What other frameworks call it."""


def check_hook_methods(cls: type[Any], base: type[Any]) -> None:
    """Check that a subclass of `Hooks` overrides hooks that there are, as they are called.

    Raises:
        ConfigurationError: a method is near to a hook's name, is not asynchronous, or takes other
            arguments.
    """
    hooks = {name: each for name, each in vars(base).items() if inspect.iscoroutinefunction(each)}
    for name, value in vars(cls).items():
        if name.startswith("_") or not inspect.isfunction(value):
            continue
        where = f"{cls.__name__}.{name}"
        if name not in hooks:
            if near := difflib.get_close_matches(name, hooks, n=1, cutoff=_NEAR):
                raise ConfigurationError(
                    f"{where} is no hook and would never be called: did you mean {near[0]!r}? "
                    "A method of your own may begin with an underscore"
                )
            continue
        parameters = ", ".join(inspect.signature(hooks[name]).parameters)
        if not inspect.iscoroutinefunction(inspect.unwrap(value)):
            raise ConfigurationError(
                f"{where} must be asynchronous; write: async def {name}({parameters})"
            )
        try:
            inspect.signature(value).bind(*inspect.signature(hooks[name]).parameters)
        except TypeError:
            raise ConfigurationError(
                f"{where}{inspect.signature(value)} cannot be called; write: "
                f"async def {name}({parameters})"
            ) from None


def check_settings(cls: type[Any], base: type[Any], settings: Collection[str]) -> None:
    """Check the values that a subclass of `Agent` has in its body for misspelt settings.

    Raises:
        ConfigurationError: one is near to a setting, or is what other frameworks call it, and its
            value would do for that.
    """
    for name, value in vars(cls).items():
        if name.startswith("_") or hasattr(base, name) or name == "deps":
            continue
        if (callable(value) and not isinstance(value, type)) or isinstance(value, property):
            continue
        near = difflib.get_close_matches(name, settings, n=1, cutoff=_NEAR_SETTING)
        meant = near[0] if near else _ELSEWHERE.get(name)
        if meant is not None and _would_do(value, getattr(base, meant)):
            raise ConfigurationError(
                f"{cls.__name__}.{name} = {value!r:.80} is no setting of an agent and would do "
                f"nothing: did you mean {meant!r}? What is yours may begin with an underscore"
            )


def _would_do(value: object, default: object) -> bool:
    """Whether a value is of the kind of a setting's, as far as its default tells."""
    if isinstance(default, bool | int):
        return isinstance(value, int)
    if isinstance(default, tuple):
        return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if isinstance(default, str):
        return isinstance(value, str)
    return default is None or isinstance(value, type(default))
