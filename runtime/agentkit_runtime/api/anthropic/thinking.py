"""`thinking`: whether the model thinks before it answers, as far as its family leaves a choice."""

from __future__ import annotations

from typing import Protocol

from agentkit_runtime.api.anthropic.request import Thinking
from agentkit_runtime.api.failure import ApiError

_SWITCHES = ("enable_thinking", "thinking")
"""Variables of chat templates that switch thinking."""


class Thinker(Protocol):
    """What has to be known of a model; `ChatService`."""

    @property
    def thinks(self) -> bool:
        """Whether the model's family thinks before it answers."""

    def template_has(self, option: str) -> bool:
        """Whether requests can set this variable of the chat template."""


def thinking_options(thinking: Thinking | None, model: Thinker) -> dict[str, bool | str]:
    """Variables of the chat template. `budget_tokens` is an advice that no model here takes.

    Raises:
        ApiError: 400, the model cannot think, or cannot but think.
    """
    if thinking is None or thinking.type == "between_tools":
        return {}
    if not model.thinks:
        if thinking.type == "enabled":
            raise _refused(
                "this model does not think before it answers; leave thinking out, or let the "
                "model decide with type 'adaptive'"
            )
        return {}
    switch = next((name for name in _SWITCHES if model.template_has(name)), None)
    if switch is not None:
        return {switch: thinking.type != "disabled"}
    if thinking.type == "disabled":
        raise _refused("this model always thinks before it answers; leave thinking out")
    return {}


def _refused(message: str) -> ApiError:
    return ApiError(message, param="thinking.type", code="unsupported_parameter")
