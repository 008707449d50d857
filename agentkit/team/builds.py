"""Builds an agent's team to look at its fronts, here and in other processes; for tests."""

from __future__ import annotations

import asyncio
import base64
import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agentkit.context import Context
from agentkit.context.lint import SourceFinder
from agentkit.errors import ConfigurationError
from agentkit.team.opening import open_team
from agentkit.team.plan import plan_team
from agentkit.team.sources import FrontSources

if TYPE_CHECKING:
    from agentkit.agent import Agent
    from agentkit.team.members import Member

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Front:
    """What the contexts of one agent begin with."""

    context: Context
    source_of: SourceFinder | None


def fronts(agent: Agent[Any, Any]) -> Mapping[str, Front]:
    """Return the front of each agent of a team, by its path. Connects its MCP servers, if any.

    Warnings of the build are left out: who compares builds gets what differs.
    """

    async def build() -> dict[str, Front]:
        async with open_team(plan_team(agent)) as team:
            return dict(_members(team.root, ()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A thread of its own: the caller may be inside an event loop.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(build())).result()


def fronts_elsewhere(
    build: Callable[[], Agent[Any, Any]], *, hash_seed: int
) -> Mapping[str, Front]:
    """Return the same as another process builds it, with its own order of sets.

    Raises:
        ConfigurationError: the other process cannot find `build`.
        RuntimeError: building failed there.
    """
    filename = inspect.getsourcefile(build)
    name = getattr(build, "__qualname__", "<unnamed>")
    if "<" in name or filename is None:
        raise ConfigurationError(
            f"another process cannot find {name!r}; give a function or a class that is defined at "
            "the top of a file, and not a lambda"
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "fronts.json")
        arguments = [build.__module__, os.path.abspath(filename), name, str(out)]
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *arguments],
            env={
                **os.environ,
                "PYTHONHASHSEED": str(hash_seed),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
        if done.returncode:
            raise RuntimeError(f"{name} cannot be built in another process:\n{done.stderr[-2000:]}")
        dumps = json.loads(out.read_text())
    return {path: Front(Context.load(base64.b64decode(data)), None) for path, data in dumps.items()}


def write_fronts(module: str, filename: str, name: str, out: str) -> None:
    """Build and write the fronts: what the other process does."""
    found: Any = _loaded(module, filename)
    for part in name.split("."):
        found = getattr(found, part)
    dumps = {
        path: base64.b64encode(front.context.dump()).decode()
        for path, front in fronts(found()).items()
    }
    Path(out).write_text(json.dumps(dumps))


_PROGRAM = "import sys; from agentkit.team.builds import write_fronts; write_fronts(*sys.argv[1:])"


def _loaded(module: str, filename: str) -> ModuleType:
    # By its file where its name leads elsewhere: scripts, and tests that are no packages.
    try:
        found = importlib.import_module(module)
        if os.path.abspath(getattr(found, "__file__", None) or "") == filename:
            return found
    except ImportError:
        pass
    spec = importlib.util.spec_from_file_location(module, filename)
    assert spec is not None, f"{filename!r} is no Python file"
    assert spec.loader is not None, f"{filename!r} cannot be loaded"
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    spec.loader.exec_module(made)
    return made


def _members(member: Member, above: tuple[str, ...]) -> Iterator[tuple[str, Front]]:
    path = (*above, member.name)
    sources = member.sources if isinstance(member.sources, FrontSources) else None
    yield "/".join(path), Front(member.front, sources)
    for child in member.children.values():
        yield from _members(child, path)
    for other in member.others:  # they say their role in a message, made of their own front
        yield from _members(replace(other, desk={}), path)
