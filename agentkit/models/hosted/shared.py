"""What a request shares with others, the same at every provider."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.plan.expect import expected_reads, shared_prefix
from agentkit.models.base import ModelRequest, Reuse, ToolName


def shared_prefixes(
    reuse: Reuse, *, organization: int, agent: int, run: Sequence[int]
) -> tuple[SharedPrefix, ...]:
    """Return the prefixes that other requests have, too; where two end together, the wider one.

    Args:
        reuse: what is known of the requests that follow.
        organization: where that of all agents ends, in blocks; 0: there is none.
        agent: where that of the agent's runs ends, not before the other.
        run: where requests of this run ended, rising.
    """
    reads = {by: expected_reads(by, reuse) for by in SharedBy}
    found: list[SharedPrefix] = []
    last = 0
    for end, by in (
        (organization, SharedBy.ORGANIZATION),
        (agent, SharedBy.AGENT),
        *((end, SharedBy.RUN) for end in run),
    ):
        if end > last:
            found.append(shared_prefix(end, by, reads[by]))
            last = end
    return tuple(found)


def choice_name(request: ModelRequest) -> str:
    """Return how a cache names the choice of tools, where it is part of what entries are keyed by.

    For one that must be called, its name.
    """
    choice = request.tool_choice
    if isinstance(choice, ToolName):
        return choice.name
    return "any" if choice == "required" else choice
