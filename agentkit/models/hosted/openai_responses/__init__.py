"""OpenAI's Responses API.

adapter.py   ResponsesAdapter: lays out, fills in, sends, learns what a gateway does not know
options.py   what an app chooses for all requests of a model
encode.py    one segment of a context -> its pieces on the wire; pieces.py keeps them
calls.py     ids and names of calls that other vendors' models made up
layout.py    a request as pieces in cache order, and which of its beginnings are shared
body.py      pieces and a plan -> the final bytes; steer.py: what stands behind the prompt
strict.py    which answer schemas the API can hold a model to
stream.py    the API's events -> ours; clients.py: the official client, one for each event loop

On the wire, in the cache's order: tools, then developer messages (rules, role, examples, each
document), then the history, and last a user message with the volatile text. The top-level
`instructions` are never used, because they cannot carry a breakpoint.
"""

from agentkit.models.hosted.openai_responses.adapter import ResponsesAdapter
from agentkit.models.hosted.openai_responses.options import ResponsesOptions

__all__ = ["ResponsesAdapter", "ResponsesOptions"]
