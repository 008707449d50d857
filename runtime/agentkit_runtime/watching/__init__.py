"""What an operator sees of a server: metrics, the last requests, traces, logs. Never what was said.

    around(app)      every HTTP request: its id, status, trace, line in the log     exchange, around
    RequestWatcher   every request to the model, as one `RequestRecord` at its end  watch, record
         |
         +-- RequestMetrics   histograms and counters                       metrics, compat
         +-- LastRequests     the last ones, by tenant                      last
    EngineCollector  the engine's own numbers, when asked                   engine_metrics

`Watching` holds them together; `routes` is the only module that knows FastAPI. OpenTelemetry
(`tracing`) is imported only when it is asked for.
"""

from agentkit_runtime.watching.options import WatchOptions
from agentkit_runtime.watching.watching import Watching

__all__ = ["WatchOptions", "Watching"]
