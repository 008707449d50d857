"""The official conformance suite of MCP, at our client and at our servers.

    python tests/bench/mcp_conformance.py --install DIR [--only client,agent] [--write]
    python tests/bench/mcp_conformance.py --from DIR ...

`--install` needs npm; the rest runs without a network. `--write` puts the table into
docs/mcp-conformance.md, where what fails is explained. Scenarios of extensions are left out, and at
the servers those that call for parts which such a server does not have.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "mcp-conformance.md"
PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
BEGIN, END = "<!-- written by tests/bench/mcp_conformance.py -->", "<!-- end -->"
VERSIONS = ("2025-11-25", "2026-07-28")
GENERIC = frozenset(
    (
        "server-initialize",
        "server-session-lifecycle",
        "server-stateless",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    )
)
"""Scenarios that call for no tool, resource or prompt of their own."""
FIXTURE = GENERIC | {
    "completion-complete",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "sep-2164-resource-not-found",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
}
TARGETS = {
    "client": "our client",
    "agent": "a served agent",
    "files": "the files server",
    "notes": "the notes server",
    "fixture": "a server with the suite's parts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One scenario at one target, in one version of the protocol."""

    target: str
    scenario: str
    version: str
    checks: tuple[dict[str, Any], ...]
    """Empty: the suite gave none."""

    def count(self, status: str) -> int:
        """How many checks ended so."""
        return sum(check["status"] == status for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """Ids of the checks that failed."""
        if not self.checks:
            return ("no result",)
        found = (check["id"] for check in self.checks if check["status"] in ("FAILURE", "WARNING"))
        return tuple(dict.fromkeys(found))

    @property
    def line(self) -> str:
        """A row of the table."""
        n_done = self.count("SUCCESS") + self.count("FAILURE") + self.count("WARNING")
        failed = ", ".join(f"`{each}`" for each in self.failed)
        return (
            f"| {TARGETS[self.target]} | {self.scenario} | {self.version} "
            f"| {self.count('SUCCESS')} of {n_done} | {failed} |"
        )


HEAD = "| at | scenario | version | checks passed | failed |\n|---|---|---|---|---|"


class Suite:
    """The suite, as it is installed."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "node_modules" / ".bin"
        self._env = os.environ | {"PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}"}

    def scenarios(self, side: str) -> list[tuple[str, str]]:
        """Return the scenarios of a side, with each version that they are run in."""
        done = self._run(["list", f"--{side}"])
        found = re.findall(r"^\s+- (\S+) \[(.*)\]$", done.stdout, re.MULTILINE)
        return [
            (name, version)
            for name, versions in found
            for version in VERSIONS
            if version in versions.split(",")
        ]

    def outcome(self, target: str, scenario: str, version: str, url: str | None) -> Outcome:
        """Run one scenario."""
        with tempfile.TemporaryDirectory() as out:
            arguments = ["--scenario", scenario, "--spec-version", version, "-o", out]
            if url is None:
                client = shlex.join([sys.executable, str(HERE / "mcp_conformance_client.py")])
                self._run(["client", "--command", client, *arguments])
            else:
                self._run(["server", "--url", url, *arguments])
            found = sorted(Path(out).rglob("checks.json"))
            checks = json.loads(found[0].read_text("utf-8")) if found else []
        return Outcome(target=target, scenario=scenario, version=version, checks=tuple(checks))

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._bin / "conformance"), *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextlib.contextmanager
def served(target: str) -> Iterator[str]:
    """Serve what is tested, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        command = {
            "agent": [str(HERE / "mcp_conformance_server.py"), "agent", str(port)],
            "fixture": [str(HERE / "mcp_conformance_server.py"), "fixture", str(port)],
            "files": ["-m", "agentkit_tools.files", folder, "--http", str(port)],
            "notes": ["-m", "agentkit_tools.notes", f"{folder}/notes.db", "--http", str(port)],
        }[target]
        process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise OSError(f"the server ended with exit code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise OSError(f"the server does not listen on port {port} after 60 s")


def main() -> None:
    """Run the suite, and print what came of it."""
    given = _arguments()
    folder = (given.install or given.source).resolve()
    if given.install is not None:
        folder.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", PACKAGE, "node@22"]
        subprocess.run(npm, cwd=folder, check=True)
    suite = Suite(folder)
    out = Console(soft_wrap=True, highlight=False, markup=False)
    out.print(HEAD)
    outcomes: list[Outcome] = []
    for outcome in _all(suite, given.only or tuple(TARGETS), given.scenario):
        outcomes.append(outcome)
        out.print(outcome.line)
        for check in outcome.checks:
            if check["status"] in ("FAILURE", "WARNING"):
                out.print(f"    {check['id']}: {check.get('errorMessage', check['description'])}")
    out.print("\n".join(_summary(outcomes)))
    if given.write:
        _write(outcomes)


def _all(suite: Suite, targets: tuple[str, ...], only: str | None) -> Iterator[Outcome]:
    for target in targets:
        if target == "client":
            for scenario, version in suite.scenarios("client"):
                if only in (None, scenario):
                    yield suite.outcome(target, scenario, version, None)
            continue
        chosen = FIXTURE if target == "fixture" else GENERIC
        with served(target) as url:
            for scenario, version in suite.scenarios("server"):
                if scenario in chosen and only in (None, scenario):
                    yield suite.outcome(target, scenario, version, url)


def _summary(outcomes: list[Outcome]) -> list[str]:
    lines = ["| at | scenarios passed | checks passed |", "|---|---|---|"]
    for target, name in TARGETS.items():
        found = [each for each in outcomes if each.target == target]
        if not found:
            continue
        n_passed = sum(not each.failed for each in found)
        n_checks = sum(each.count("SUCCESS") for each in found)
        n_bad = sum(each.count("FAILURE") + each.count("WARNING") for each in found)
        lines.append(f"| {name} | {n_passed} of {len(found)} | {n_checks} of {n_checks + n_bad} |")
    return lines


def _write(outcomes: list[Outcome]) -> None:
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join([*_summary(outcomes), "", HEAD, *(each.line for each in outcomes)])
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--install", type=Path, help="fill such a folder first, then use it")
    where.add_argument("--from", dest="source", type=Path, help="a folder that was filled before")
    parser.add_argument("--only", type=_names, default=(), help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--scenario", help="this one alone")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    main()
