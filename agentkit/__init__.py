"""agentkit: agents whose cached prompt prefix is a maintained invariant.

agent.py    Agent: what you subclass or instantiate    team/      delegate, fan_out, handoff, forks
loop.py     one run, as one generator                  context/   append-only, hashed, forkable
asking.py   calls, compacting, telling: its parts      knowledge/ documents that change, in versions
state.py    what a run knows; saved.py: as a value     toolset/   functions and MCP servers as tools
journal.py  where runs are kept; beginning.py          models/    local, hosted, fallback, scripted
limits.py   budget.py: what a tree of runs may use     store/     the journal in a database
hooks.py    code of your own at fixed places           fake/      a fake provider, for tests
blocks.py   what messages are made of                  observe/   traces, logs, a live view, reports
events.py   what a stream yields; folding.py: a turn   cli/       the command `agentkit`
caching/    rules, plans, verdicts, money              testing/   for your own tests
Importing agentkit loads no model runtime, no vendor's SDK and no MCP.
"""

from __future__ import annotations

from agentkit.agent import Agent
from agentkit.blocks import AssistantMessage, Message, ToolMessage, UserMessage
from agentkit.context import Context, Document, VolatileTextWarning
from agentkit.context.compaction_rule import CompactionRule
from agentkit.errors import (
    AgentkitError,
    ApprovalRequired,
    Blocked,
    ConfigurationError,
    ContextError,
    ContextFrozen,
    ContextMismatch,
    FormatError,
    LimitReached,
    MissingExtra,
    ModelError,
    OutputError,
    PriceUnknown,
    RequestRefused,
    RunError,
    TurnLimitReached,
    UnknownModel,
)
from agentkit.hooks import HookContext, Hooks
from agentkit.journal import Journal, JournalError, MemoryJournal
from agentkit.knowledge import Knowledge
from agentkit.limits import Limits, LimitUse
from agentkit.models import FallbackModel, Model, ModelRequest, Settings, ToolChoice, ToolName
from agentkit.partial import partial_outputs
from agentkit.result import RunRecord, RunResult
from agentkit.saved import Answered, Approve, Deny, PausedRun, PendingCall
from agentkit.stream import RunStream
from agentkit.team import FanOut, Task, fan_out, subagent
from agentkit.toolset import Failed, Retry, Tool, ToolContext, ToolOutput, tool
from agentkit.toolset.caller import Accept, Question, SamplingRequest
from agentkit.toolset.errors import McpConnectError, McpRequestError
from agentkit.toolset.mcp import McpServer
from agentkit.usage import Timing, Usage
from agentkit.warn import MissingDescriptionWarning

__all__ = [
    "Accept",
    "Agent",
    "AgentkitError",
    "Answered",
    "ApprovalRequired",
    "Approve",
    "AssistantMessage",
    "Blocked",
    "CompactionRule",
    "ConfigurationError",
    "Context",
    "ContextError",
    "ContextFrozen",
    "ContextMismatch",
    "Deny",
    "Document",
    "Failed",
    "FallbackModel",
    "FanOut",
    "FormatError",
    "HookContext",
    "Hooks",
    "Journal",
    "JournalError",
    "Knowledge",
    "LimitReached",
    "LimitUse",
    "Limits",
    "McpConnectError",
    "McpRequestError",
    "McpServer",
    "MemoryJournal",
    "Message",
    "MissingDescriptionWarning",
    "MissingExtra",
    "Model",
    "ModelError",
    "ModelRequest",
    "OutputError",
    "PausedRun",
    "PendingCall",
    "PriceUnknown",
    "Question",
    "RequestRefused",
    "Retry",
    "RunError",
    "RunRecord",
    "RunResult",
    "RunStream",
    "SamplingRequest",
    "Settings",
    "Task",
    "Timing",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolMessage",
    "ToolName",
    "ToolOutput",
    "TurnLimitReached",
    "UnknownModel",
    "Usage",
    "UserMessage",
    "VolatileTextWarning",
    "fan_out",
    "partial_outputs",
    "subagent",
    "tool",
]
