"""The front of an agent: what all its contexts begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.context.lint import warn_volatile
from agentkit.context.segment import Content
from agentkit.team.sources import FrontSources
from agentkit.toolset import Toolset

if TYPE_CHECKING:
    from agentkit.team.known import Edition
    from agentkit.team.plan import Plan


class FrontBuilder:
    """Builds the fronts of one agent in an open team: one for each edition of its documents."""

    def __init__(self, plan: Plan, root: Plan, team: Toolset, above: Context | None) -> None:
        self._plan = plan
        self._root = root
        self._team = team
        self._above = above
        self._made: dict[int | None, Context] = {}
        """The fronts of the last two editions, by version."""

    def front(self, edition: Edition | None) -> Context:
        """Return rules, tools, role, examples and documents; linted when it is new."""
        version = None if edition is None else edition.version
        known = self._made
        if version not in known:
            self._made = known = {**dict(list(known.items())[-1:]), version: self._build(edition)}
        return known[version]

    def sources(self, front: Context) -> FrontSources:
        """Return where the front's text comes from."""
        return FrontSources(self._plan, self._root, self._team, front)

    def _build(self, edition: Edition | None) -> Context:
        front = Context(*self._contents(edition))
        if self._plan.agent.is_new_front(front.digest):
            # What is shared with the agent above was looked at there.
            n_shared = front.common_length(self._above) if self._above is not None else 0
            warn_volatile(front.segments[n_shared:], self._plan.name, self.sources(front))
        return front

    def _contents(self, edition: Edition | None) -> list[Content]:
        plan = self._plan
        front: list[Content] = []
        if plan.rules:
            front.append(SystemText(SystemPart.RULES, plan.rules))
        if len(self._team):
            front.append(ToolList(self._team.bytes))
        if plan.role:
            front.append(SystemText(SystemPart.ROLE, plan.role))
        if plan.examples:
            front.append(SystemText(SystemPart.EXAMPLES, plan.examples))
        return [*front, *(plan.knowledge if edition is None else edition.documents)]
