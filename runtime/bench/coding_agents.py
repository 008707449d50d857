"""Coding agents from npm and PyPI against our server with the bundled model: how far do they come?

    python runtime/bench/coding_agents.py --install DIR [--agent NAME] [--unforced]

Installs the agents into DIR, which takes a network and some minutes, and serves `smollm2` beside
them. Each agent is asked for a word that only a file says. A model of 135M parameters hardly ever
calls a tool by itself, so between agent and server stands a proxy that makes the first request of
each session demand a call (`tool_choice`); nothing else is changed. With `--unforced` it only
looks. What is printed is what happened, whatever that is; the exit status is that of the setup.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.agent_programs import MODEL, SLOTS, Agent, agents
from bench.agent_proxy import Proxy, Seen
from bench.serve_process import serve_process

AGENT_TIMEOUT_S = 300
WORD = "apricot"


def install(chosen: Sequence[Agent], folder: Path) -> Path:
    """Install the agents' packages where they are missing; where those of npm are then."""
    modules, environment = folder / "node_modules", folder / "pypi"
    packages = {agent.package for agent in chosen if agent.source == "npm"}
    missing = sorted(name for name in packages if not (modules / name).exists())
    if missing:
        command = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", *missing]
        subprocess.run(command, check=True, stdout=sys.stderr)
    python = sorted({agent.package for agent in chosen if agent.source == "pypi"})
    if python and not environment.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        command = [str(environment / "bin/pip"), "install", *python]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return modules


def run(agent: Agent, modules: Path, folder: Path, proxy: Proxy) -> None:
    """Run one agent, and print what happened."""
    home, work = folder / "home", folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "notes.txt").write_text(f"The code word is {WORD}.\n")
    for path, content in agent.settings(proxy.url).items():
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    proxy.seen = Seen()
    prompt = f"Read the file {work / 'notes.txt'} and tell me the code word."
    environment = {**os.environ, "HOME": str(home), **agent.environment(proxy.url)}
    began = time.monotonic()
    try:
        done = subprocess.run(
            agent.command(modules, prompt),
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=AGENT_TIMEOUT_S,
        )
        ended, said = f"exit {done.returncode}", (done.stdout or done.stderr).strip()
    except subprocess.TimeoutExpired:
        ended, said = f"stopped after {AGENT_TIMEOUT_S} s", ""
    report(agent, proxy.seen, ended, said, time.monotonic() - began)


def report(agent: Agent, seen: Seen, ended: str, said: str, seconds: float) -> None:
    """Print one agent's session."""
    n_prompt, n_cached = sum(seen.prompt_tokens), sum(seen.cached_tokens)
    share = f"{n_cached / n_prompt:.0%}" if n_prompt else "-"
    lines = [
        f"## {agent.name}: {ended} after {seconds:.0f} s",
        f"   endpoints        {', '.join(sorted(seen.paths)) or 'none'}",
        f"   requests         {len(seen.statuses)}, statuses {sorted(set(seen.statuses))}",
        f"   results of tools {seen.n_results} in the last request",
        f"   prompts          {seen.prompt_tokens} tokens, cached {seen.cached_tokens} ({share})",
        f"   moved            {', '.join(seen.moved) or 'nothing'}",
        f"   left out         {', '.join(sorted(seen.unserved)) or 'nothing'}",
        f"   knows the word   {'yes' if WORD in said else 'no'}",
        f"   said             {said[:300]!r}",
        *(f"   failure          {failure}" for failure in seen.failures[:3]),
    ]
    sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()


def main() -> None:
    """Install, serve, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--install", type=Path, required=True, help="folder for the packages")
    parser.add_argument("--agent", default="", help="only those whose name contains this")
    parser.add_argument("--unforced", action="store_true", help="demand no call of the model")
    options = parser.parse_args()
    folder = options.install.expanduser().absolute()
    chosen = [agent for agent in agents() if options.agent in agent.name]
    modules = install(chosen, folder)
    with (
        serve_process("--slots", str(SLOTS), model=MODEL) as server,
        Proxy(server.url, forces=not options.unforced) as proxy,
    ):
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for agent in chosen:
            run(agent, modules, folder, proxy)
        proxy.shutdown()


if __name__ == "__main__":
    main()
