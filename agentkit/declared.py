"""What the class of an agent says without saying it: name, role, and the type of the answer."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any, cast, get_args, get_origin

from typing_extensions import TypeVar

from agentkit.errors import ConfigurationError


def declared_name(cls: type[object]) -> str:
    """The name of an agent that has none of its own: that of its class, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()


def declared_role(cls: type[object], base: type[object]) -> str:
    """The docstring of the nearest class below `base` that has one.

    Raises:
        ConfigurationError: Python has removed it.
    """
    for owner in cls.__mro__:
        if owner is base:
            break
        if owner.__doc__ and not _is_generated(owner, owner.__doc__):
            return inspect.cleandoc(owner.__doc__)
    if cls is not base and sys.flags.optimize >= 2:
        raise ConfigurationError(
            f"python -OO removed the docstring of {cls.__name__!r}; set `instructions`"
        )
    return ""


def declared_output(cls: type[object], base: type[object]) -> type[Any]:
    """The second type argument that a subclass gives to `base`; `str` by default.

    Raises:
        ConfigurationError: it is left open.
    """
    for owner in cls.__mro__:
        for declared in vars(owner).get("__orig_bases__", ()):
            arguments = get_args(declared)
            is_ours = get_origin(declared) is base and len(arguments) == 2
            if is_ours and isinstance(arguments[1], TypeVar):
                raise ConfigurationError(
                    f"the answer's type of {cls.__name__!r} is not known, because "
                    f"{owner.__name__!r} leaves it open; set output_type"
                )
            if is_ours:
                return cast("type[Any]", arguments[1])
    return str


def _is_generated(cls: type[object], doc: str) -> bool:
    """Whether a docstring is the signature that `@dataclass` writes where the class has none.

    It is no role; and with the repr of a set in it, it differs from process to process.
    """
    is_signature = doc == cls.__name__ or doc.startswith(f"{cls.__name__}(")
    return "__dataclass_fields__" in vars(cls) and is_signature
