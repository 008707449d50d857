"""A subagent as a tool of its parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentkit.blocks import UserMessage, printable
from agentkit.result import Ok
from agentkit.toolset import ToolContext, ToolOutput, ToolPolicy, ToolSpec, canonical_json
from agentkit.toolset.results import finite

if TYPE_CHECKING:
    from agentkit.result import RunResult

_MAX_SUMMARY = 300
_POLICY = ToolPolicy(resumes=True)


class Delegate:
    """The tool `delegate_to_<name>`: runs the subagent on a task and answers with its answer.

    Several calls of one turn run in parallel. A subagent that fails answers with an error result,
    which says why.
    """

    def __init__(self, name: str, role: str) -> None:
        self._name = name
        self._spec = ToolSpec(
            name=f"delegate_to_{name}",
            description=f"Give a task to the agent {name!r}, and get its answer.{summary_of(role)}",
            parameters={
                "type": "object",
                "properties": {
                    "task": {
                        "type": "string",
                        "description": "What to do, with everything the agent must know for it.",
                    }
                },
                "required": ["task"],
                "additionalProperties": False,
            },
            source=f"subagent {name!r}",
        )

    @property
    def spec(self) -> ToolSpec:
        """The pinned spec."""
        return self._spec

    @property
    def policy(self) -> ToolPolicy:
        """A call that was cut off goes on with the subagent's run."""
        return _POLICY

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Run the subagent of the agent that calls."""
        from agentkit.state import RunContext
        from agentkit.team.below import begin_below
        from agentkit.team.spawn import run_below

        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip() or len(arguments) != 1:
            return ToolOutput.error(
                f'Give one argument "task", a text that is not empty; got {dict(arguments)!r:.200}.'
            )
        if not isinstance(context, RunContext):
            return ToolOutput.error(f"{self._spec.name} works only inside the run of an agent.")
        member = context.run.member.children[self._name]
        fork = self._name in context.run.member.forked
        run = begin_below(context.run, member, self._name, context.call_id, fork=fork)
        outcome = await run_below(context.run, run, UserMessage.of(printable(task)))
        if isinstance(outcome, Ok):
            return ToolOutput(content=answer_text(outcome.result))
        return ToolOutput.error(f"The agent {self._name!r} failed: {outcome.reason}")

    def __repr__(self) -> str:
        return f"<delegate tool of {self._name!r}>"


def answer_text(result: RunResult[object]) -> str:
    """Return an answer as its parent's model reads it: plain text as it is, values as JSON."""
    if isinstance(result.output, str):
        return result.output
    from agentkit.json_values import jsonable

    return canonical_json(finite(jsonable(result.output))).decode()


def summary_of(role: str) -> str:
    """Return a sentence about a role for a tool's description; nothing if there is none."""
    summary = role.strip().split("\n\n")[0].replace("\n", " ")
    if len(summary) > _MAX_SUMMARY:
        summary = summary[:_MAX_SUMMARY].rsplit(" ", 1)[0] + " ..."
    return f" Its role: {summary}" if summary else ""
