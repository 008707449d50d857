"""Everything that watches one server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector

from agentkit_runtime.governing.pressure import PressureLimits, pressure_of
from agentkit_runtime.watching.around import Around
from agentkit_runtime.watching.compat import Page
from agentkit_runtime.watching.engine_metrics import EngineCollector
from agentkit_runtime.watching.last import LastRequests
from agentkit_runtime.watching.logs import log_config
from agentkit_runtime.watching.metrics import HttpMetrics, RequestMetrics
from agentkit_runtime.watching.options import WatchOptions
from agentkit_runtime.watching.watch import RequestWatcher

if TYPE_CHECKING:
    from fastapi import APIRouter
    from opentelemetry.trace import TracerProvider
    from starlette.types import ASGIApp

    from agentkit_runtime.api.asked import Watcher
    from agentkit_runtime.api.site import Site
    from agentkit_runtime.service import ChatService

METRICS_PATH = "/metrics"


class Watching:
    """Metrics, last requests, traces and logs of one server:

    watching = Watching(service, WatchOptions(), model="SmolLM2")
    app = create_app(
        service, watchers=watching.watchers, more=(watching.routes,),
        open_paths=watching.open_paths,
    )
    uvicorn.Config(watching.around(app), log_config=watching.log_config, access_log=False)
    """

    def __init__(
        self,
        service: ChatService,
        options: WatchOptions | None = None,
        *,
        model: str | None = None,
        pressure: Callable[[], float] | None = None,
        tracer_provider: TracerProvider | None = None,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin to watch.

        Args:
            service: whose engine's numbers are shown.
            options: what is watched.
            model: its name in answers, for the label `model_name`; by default the model's label.
            pressure: how full the server is, from 0 to 1; `PressureGate.pressure().index`. By
                default reckoned with the default limits.
            tracer_provider: takes the spans; by default the process's own.
            clock: monotonic seconds.
            unix_clock: Unix seconds.

        Raises:
            ImportError: `options.otel`, and OpenTelemetry is not installed.
        """
        self.options = options or WatchOptions()
        self._clock = clock
        label = model or service.model_label

        def reckoned() -> float:
            return pressure_of(service.stats(), PressureLimits()).index

        registry = CollectorRegistry()
        requests = RequestMetrics(registry, label, by_tenant=self.options.tenant_metrics)
        self._http = HttpMetrics(registry, label)
        engine = EngineCollector(service, label, pressure or reckoned, clock=clock)
        # Not registered anywhere: a registry would run it once more to learn its names.
        process = ProcessCollector(registry=None)
        self._page = Page((engine, registry, process), self.options.metrics_compat)
        kept = self.options.last_requests
        self.last = LastRequests(kept=kept, kept_by_tenant=kept // 4)
        """The last requests."""
        self.watchers: tuple[Watcher, ...] = (
            RequestWatcher((requests, self.last), requests.gap, clock=clock, unix_clock=unix_clock),
        )
        """For `create_app`."""
        self._tracing = None
        if self.options.otel:
            from agentkit_runtime.watching.tracing import Tracing

            self._tracing = Tracing(label, tracer_provider)

    @property
    def open_paths(self) -> frozenset[str]:
        """Paths that need no key; for `create_app`."""
        return frozenset({METRICS_PATH} if self.options.open_metrics else ())

    @property
    def log_config(self) -> dict[str, Any]:
        """For uvicorn, or `logging.config.dictConfig`."""
        return log_config(self.options)

    def routes(self, site: Site) -> APIRouter:
        """The endpoints; for `create_app(more=...)`."""
        from agentkit_runtime.watching.routes import watch_routes

        return watch_routes(self)

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application to serve: `app`, and every request to it is seen."""
        return Around(app, self._http, self._tracing, self._clock)

    def metrics(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return self._page.write()
