"""Which line of source code supplied which part of an agent's front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from agentkit.context import Context, Document, Segment, SystemPart, SystemText, ToolList
from agentkit.context.canonical import digest
from agentkit.context.sources import line_near, line_of_attribute, line_of_function
from agentkit.toolset import FunctionTool, Tool, Toolset

if TYPE_CHECKING:
    from agentkit.team.plan import AnyAgent, Plan


class FrontSources(Mapping[str, str]):
    """Digest of a segment (or of one tool's spec) -> where it comes from, e.g. `app.py:12`.

    Nothing is looked up before somebody asks. Where no line is known the argument is named, as in
    `instructions=... of agent 'desk'`. Called with a segment and a piece of its text, it returns
    the line of that text.
    """

    def __init__(self, plan: Plan, root: Plan, team: Toolset, front: Context) -> None:
        finders: dict[str, Callable[[str], str]] = {}
        for segment in front:
            finders[segment.digest] = _finder(segment, plan, root, team)
        for tool in team:
            finders[digest(tool.spec.bytes)] = _tool_finder(tool, root)
        self._finders = finders

    def __call__(self, segment: Segment, text: str) -> str | None:
        """Return the line that supplied a piece of a segment's text."""
        finder = self._finders.get(segment.digest)
        return None if finder is None else finder(text)

    def __getitem__(self, key: str) -> str:
        return self._finders[key]("")

    def __iter__(self) -> Iterator[str]:
        return iter(self._finders)

    def __len__(self) -> int:
        return len(self._finders)


def _finder(segment: Segment, plan: Plan, root: Plan, team: Toolset) -> Callable[[str], str]:
    match segment.content:
        case SystemText(part=SystemPart.RULES):
            return lambda text: _of_attribute(root.agent, "rules", text)
        case SystemText(part=SystemPart.EXAMPLES):
            return lambda text: _of_attribute(plan.agent, "examples", text)
        case SystemText():
            return lambda text: _of_role(plan.agent, text)
        case ToolList():
            return lambda text: _of_tools(team, root, text)
        case Document(uri=uri):
            return lambda text: f"{_of_attribute(plan.agent, 'knowledge', text)}, {uri!r}"
        case _:
            return lambda text: f"the history of agent {plan.name!r}"


def _of_tools(team: Toolset, root: Plan, text: str) -> str:
    """The tools whose bytes have the text; of all, how many there are."""
    places = [_tool_finder(tool, root)(text) for tool in team if text in tool.spec.bytes.decode()]
    if not text or not places:
        return f"the {len(team)} tools of the team of agent {root.name!r}"
    return ", ".join(dict.fromkeys(places))


def _tool_finder(tool: Tool, root: Plan) -> Callable[[str], str]:
    def find(text: str) -> str:
        if isinstance(tool, FunctionTool):
            return line_of_function(tool.function, text) or tool.spec.source
        for part in root.everyone():
            if tool.spec.name in (f"delegate_to_{part.name}", f"handoff_to_{part.name}"):
                return _of_role(part.agent, text)
        return tool.spec.source

    return find


def _of_role(agent: AnyAgent, text: str) -> str:
    if agent.instructions:
        return _of_attribute(agent, "instructions", text)
    return line_of_attribute(type(agent), "__doc__", text) or f"the docstring of {type(agent)!r}"


def _of_attribute(agent: AnyAgent, name: str, text: str) -> str:
    what = f"{name}=... of agent {agent.name!r}"
    if name not in vars(agent):
        return line_of_attribute(type(agent), name, text) or what
    return what if agent.made_at is None else f"{line_near(*agent.made_at, text)}, {name}=..."
