"""How wrong values of options are told: with the value, and without the parser's own words."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

_PREFIX = "Value error, "
"""Before what is no number of the parser's, but a choice."""


class Commands(TyperGroup):
    """A group of commands whose refusals of a value name it."""

    def invoke(self, ctx: Any) -> Any:
        """Run what was asked for."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as refusal:
            found = getattr(refusal.__cause__, "errors", None)
            if callable(found):
                refusal.message = told(found()[0])
            raise


def told(finding: dict[str, Any]) -> str:
    """One of Pydantic's findings about a value, for who typed it."""
    message = str(finding["msg"]).removeprefix(_PREFIX)
    value = str(finding["input"])
    if value in message:
        return message
    wanted = message.removeprefix("Input should be ")
    return f"it must be {wanted}; got {value!r}" if wanted != message else f"{message}: {value!r}"
