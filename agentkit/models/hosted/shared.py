"""What a request shares with others, the same at every provider."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.plan.expect import expected_reads, prefixes_by
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
    found: list[SharedPrefix] = []
    last = 0
    fronts = ((SharedBy.ORGANIZATION, (organization,)), (SharedBy.AGENT, (agent,)))
    for by, ends in (*fronts, (SharedBy.RUN, run)):
        known = prefixes_by(by, expected_reads(by, reuse))
        for end in ends:
            if end > last:
                found.append(known[end])
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
