"""From `my_app:MyAgent` to an agent."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, TypeAlias

from agentkit import Agent
from agentkit.errors import ConfigurationError

AnyAgent: TypeAlias = Agent[Any, Any]


def load_agent(where: str, *, model: str | None = None) -> AnyAgent:
    """Return the agent at `module:name`: an instance, or what a class or function makes.

    Args:
        where: the module with dots, a colon, and the name in it.
        model: a model string in place of the agent's.

    Raises:
        ConfigurationError: there is none, or it cannot be made without arguments.
    """
    module_name, colon, name = where.partition(":")
    if not (module_name and colon and name):
        raise ConfigurationError(f"{where!r} names no agent; write my_app:MyAgent")
    module = _module(module_name)
    if not hasattr(module, name):
        raise ConfigurationError(_no_such_name(module, name))
    agent = _agent_of(getattr(module, name), where)
    if model is not None:
        agent.model = model
    return agent


def _agent_of(found: Any, where: str) -> AnyAgent:
    if isinstance(found, Agent):
        return found
    if not callable(found):
        raise ConfigurationError(f"{where} is {found!r}, and no agent")
    try:
        made = found()
    except TypeError as error:
        raise ConfigurationError(
            f"{where} cannot be made without arguments ({error}); name an instance, or a function "
            "that returns one"
        ) from error
    if not isinstance(made, Agent):
        raise ConfigurationError(f"{where}() returned {made!r}, and no agent")
    return made


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name and not name.startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{name} needs the module {error.name!r}, which is not installed here"
            ) from error
        raise ConfigurationError(
            f"there is no module {name!r} in {here} or among the installed packages; write the "
            "path with dots and without .py, e.g. my_app.agents:MyAgent"
        ) from error


def _no_such_name(module: Any, name: str) -> str:
    agents = sorted(
        key
        for key, value in vars(module).items()
        if isinstance(value, Agent)
        or (isinstance(value, type) and issubclass(value, Agent) and value is not Agent)
    )
    known = f"its agents are: {', '.join(agents)}" if agents else "it has no agents"
    return f"the module {module.__name__!r} has no {name!r}; {known}"
