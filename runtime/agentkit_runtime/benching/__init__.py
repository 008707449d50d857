"""A load generator for any server with OpenAI's chat completions: `agentkit-runtime bench`.

workload   which conversations are held
asking     one streamed request, and when its tokens came
running    all conversations, so many at a time
report     percentiles of them, as a document and as a table

It knows nothing of this runtime's own server.
"""

from agentkit_runtime.benching.report import ServerReport, table
from agentkit_runtime.benching.running import Target, run
from agentkit_runtime.benching.workload import Workload

__all__ = ["ServerReport", "Target", "Workload", "run", "table"]
