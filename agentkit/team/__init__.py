"""Teams: agents that work for other agents, on one shared prefix.

plan.py      what belongs to a team, from its root agent; checks it; connects nothing
members.py   Team and Member: one sorted superset of tools, and a mask and a front for each agent
opening.py   connects the MCP servers of a team and makes its members
front.py     the front of an agent; sources.py: whose line is it; known.py: documents that change
pinned.py    a conversation keeps the front that it was begun with; epoch.py: until it is told
builds.py    builds a team to look at its fronts, here and in other processes; for tests
delegate.py  a subagent as a tool
fan_out.py   many tasks at once; failures are results. tasks.py: what was given
subagent.py  how an agent employs another: fresh, or with a fork of its conversation
handoff.py   the conversation goes on under another agent; desk.py: who there is
joining.py   an agent in a conversation that another has begun
spawn.py     runs one subagent below a run
warm.py      fills caches with the members' fronts before anybody asks
"""

from __future__ import annotations

from agentkit.result import Failed, Ok, Outcome
from agentkit.team.epoch import begin_epoch
from agentkit.team.fan_out import FanOut, fan_out
from agentkit.team.subagent import subagent
from agentkit.team.tasks import Task
from agentkit.team.warm import warm

__all__ = [
    "Failed",
    "FanOut",
    "Ok",
    "Outcome",
    "Task",
    "begin_epoch",
    "fan_out",
    "subagent",
    "warm",
]
