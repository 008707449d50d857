"""What a plan says in words: what was not done, and why."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.caching.plan.draft import Draft
from agentkit.caching.plan.needs import Need
from agentkit.caching.plan.prompt import Prompt
from agentkit.caching.policy import Policy


def mark_notes(
    draft: Draft,
    policy: Policy,
    prompt: Prompt,
    needs: Sequence[Need],
    *,
    n_marks: int,
    n_free: int = 1,
) -> tuple[str, ...]:
    """Return why a prefix that is shared is not cached. `n_free`: marks left by the user."""
    notes: list[str] = []
    minimum = policy.minimum_tokens
    if minimum is None:
        notes.append(
            f"the shortest prefix that {policy.provider.value} caches is not known for "
            f"{policy.model!r}; planned as if there were none"
        )
    elif (
        draft.shared
        and prompt.total
        and not any(prompt.anchor(shared.end) is not None for shared in draft.shared)
    ):
        longest = prompt.length(prompt.shown_before(draft.shared[-1].end) - 1)
        if longest < minimum:
            notes.append(
                f"the shared prefix has about {longest} tokens; {policy.model!r} caches from "
                f"{minimum} on"
            )
        else:
            notes.append("no block of the shared prefix takes a mark")
    elif not n_marks and not needs:
        notes.append("nobody is expected to read this prompt again, so nothing is written")
    elif not n_marks:
        reads = sum(need.reads for need in needs)
        notes.append(f"{reads} expected reads do not pay for a write, so nothing is written")
    if not n_free and needs:
        notes.append(
            "the user's own marks leave none to the planner; take one away to get the rest"
        )
    if policy.prices is None:
        notes.append(f"no price is known for {policy.model!r}; planned with the usual multipliers")
    return tuple(notes)


def front_notes(draft: Draft, policy: Policy, prompt: Prompt) -> tuple[str, ...]:
    """Return why a shared prefix is not cached where there are no marks."""
    minimum = policy.minimum_tokens
    if minimum is None or not draft.shared or not prompt.total:
        return ()
    longest = prompt.length(prompt.shown_before(draft.shared[-1].end) - 1)
    if longest >= minimum:
        return ()
    return (
        f"the shared prefix has about {longest} tokens; {policy.model!r} caches from {minimum} on",
    )


def siblings_ahead(prompt: Prompt, needs: Sequence[Need], *, n_ahead: int = 1) -> int:
    """Return how many requests must go first, so that others find the longest shared front."""
    fronts = [need for need in needs if not need.is_run]
    if not fronts or prompt.readable[fronts[-1].at]:
        return 0
    return n_ahead
