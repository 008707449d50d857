"""What was asked for and is not done, where the answer is a legal one without it.

Clients add such fields to whatever they ask, and have no switch to leave them out. A header of the
answer tells which they were; what would make the answer a wrong one is refused instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.api.openai.options import Templated, ignores_effort
from agentkit_runtime.api.openai.request import ChatCompletionBody

UNSERVED_HEADER = "x-agentkit-unserved"

_MOST_TOLD = 50
"""A thousand tools may have a grammar each, and many clients fail at headers of 8 KB."""


def unserved_header(unserved: Sequence[str]) -> dict[str, str]:
    """The header that tells them, each once; none where there are none."""
    told = list(dict.fromkeys(unserved))
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD:] = [f"and {len(told) - _MOST_TOLD} more"]
    return {UNSERVED_HEADER: ", ".join(told)} if told else {}


def unserved_of_chat(body: ChatCompletionBody, service: Templated) -> tuple[str, ...]:
    """What is not done of a chat completion's body that was taken."""
    found = ["reasoning_effort"] if ignores_effort(body.reasoning_effort, service) else []
    if is_verbosity_unserved(body.verbosity):
        found.append("verbosity")
    for tool in body.tools or ():
        form = None if tool.custom is None else tool.custom.format
        if tool.custom and form and form.grammar and form.grammar.syntax == "lark":
            found.append(f"{tool.custom.name}.format")
    return tuple(found)


def is_verbosity_unserved(verbosity: str | None) -> bool:
    """Whether an answer is wanted longer or shorter than the model makes it."""
    return verbosity not in (None, "medium")
