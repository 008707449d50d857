"""Tools that a conversation gets in its middle, as the Responses API takes them.

Source: documentation of 2026-09-20 (tool search), client 3.57.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from agentkit.caching.policy import openai_policy
from agentkit.errors import UnknownModel
from agentkit.fake.fields import JsonObject, Problem, objects_of


def with_added_tools(
    model: str, tools: Sequence[JsonObject], items: Sequence[JsonObject]
) -> tuple[JsonObject, ...]:
    """Return the tools of a request, and behind them those of its `additional_tools` items.

    Raises:
        Problem: an item that the API does not take, or a model that takes none.
    """
    found = list(tools)
    names = {tool.get("name") for tool in tools}
    for index, item in enumerate(items):
        if item.get("type") != "additional_tools":
            continue
        path = f"input[{index}]"
        if not _takes_them(model):
            raise Problem(f"Invalid value: 'additional_tools' with model {model!r}.", param=path)
        if item.get("role") != "developer":
            raise Problem("Invalid value. Supported values are: 'developer'.", param=f"{path}.role")
        for tool in objects_of(item.get("tools"), f"{path}.tools"):
            if tool.get("name") in names:
                raise Problem(f"Duplicate tool name: {tool.get('name')!r}.", param=f"{path}.tools")
            names.add(tool.get("name"))
            found.append(tool)
    return tuple(found)


def _takes_them(model: str) -> bool:
    try:
        policy = openai_policy(model, datetime.now(UTC).date())
    except UnknownModel:
        return True
    return policy.later_tools is not None
