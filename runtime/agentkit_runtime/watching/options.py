"""What of a server is watched, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from agentkit_runtime.checks import require_whole

Compat = Literal["vllm", "sglang", "none"]
"""Whose metric names are written beside our own."""

LogFormat = Literal["text", "json"]

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Settings of `Watching`. Raises ValueError for values that cannot be."""

    metrics_compat: Compat = "vllm"
    """Routers such as llm-d's read vLLM's names."""
    open_metrics: bool = False
    """Serve `/metrics` to everybody. Else an admin's key is needed where keys are: the numbers of
    all tenants together tell each of them what the others do."""
    tenant_metrics: bool = False
    """Count tokens and requests by tenant, too. Whoever may read `/metrics` then sees their names.
    """
    otel: bool = False
    """Trace requests with OpenTelemetry."""
    log_format: LogFormat = "text"
    log_level: LogLevel | None = None
    """The least that is logged. By default `info`, which is a line a request, for JSON; else
    `warning`."""
    last_requests: int = 512
    """How many of the last requests are kept for admins; each tenant sees a quarter as many of its
    own."""

    def __post_init__(self) -> None:
        require_whole("last_requests", self.last_requests, least=4, most=100_000)
        for name, known in (
            ("metrics_compat", get_args(Compat)),
            ("log_format", get_args(LogFormat)),
            ("log_level", (*get_args(LogLevel), None)),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")

    @property
    def level(self) -> LogLevel:
        """The least that is logged."""
        return self.log_level or ("info" if self.log_format == "json" else "warning")
