"""A chat request on its way into the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit_runtime.chat import ChatRequest, ToolName
from agentkit_runtime.prompt import Prompt
from agentkit_runtime.types import GenerateRequest

if TYPE_CHECKING:
    from agentkit_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A chat request as the engine will see it."""

    generate: GenerateRequest
    prompt: Prompt
    """How the prompt came about."""
    callable_names: frozenset[str]
    """Tools that may be called; if there are any, the text has to be searched for calls."""

    @property
    def n_reused_ids(self) -> int:
        """Prompt ids that are the ids of earlier replies and were not made by tokenising."""
        return self.prompt.n_reused_ids


def ids_that_read(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[int]:
    """The leading `ids` whose bytes are exactly those of `text`; empty when there are none.

    Cuts off an end-of-turn token and the tokens of a stop string. A reply with special tokens
    inside, which are not visible, or cut inside a character has no such ids.
    """
    wanted = text.encode("utf-8", "surrogatepass")
    said = bytearray()
    for n, token_id in enumerate(ids):
        if len(said) >= len(wanted):
            return list(ids[:n]) if said == wanted else []
        said += tokenizer.token_bytes(token_id)
    return list(ids) if said == wanted else []


def callable_names(request: ChatRequest) -> frozenset[str]:
    """The tools that the request lets the model call."""
    names = frozenset(tool.name for tool in request.tools)
    if request.allowed_tools is not None:
        names &= request.allowed_tools
    match request.tool_choice:
        case "none":
            return frozenset()
        case ToolName(name=name):
            return names & {name}
        case _:
            return names
