"""Names of OpenTelemetry's GenAI conventions, and ours for what has none. All in this module.

Source: open-telemetry/semantic-conventions-genai, as of November 2026: status Development, so they
may change. That is why they are strings here, and no import of the conventions' package, where they
are marked as moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

# Operations: the first word of a span's name.
CHAT = "chat"
INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"

# Attributes.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
"""Only ever true; it is left out where it is not."""
OUTPUT_TYPE = "gen_ai.output.type"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_TOP_K = "gen_ai.request.top_k"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_STOP = "gen_ai.request.stop_sequences"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""All of the prompt: read from a cache, written to one, and neither."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOKEN_MODALITY = "gen_ai.token.modality"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# Ours.
RUN_ID = "agentkit.run.id"
RUN_PATH = "agentkit.run.path"
RUN_STATUS = "agentkit.run.status"
"""done, paused, failed, cancelled, or left: whoever read the events stopped reading."""
PENDING_CALLS = "agentkit.run.pending_calls"
"""Calls that wait for a person."""
TURNS = "agentkit.run.turns"
TENANT = "agentkit.tenant"
EPOCH = "agentkit.epoch"
REQUEST_ID = "agentkit.request.id"
HIT_RATIO = "agentkit.cache.hit_ratio"
PREDICTED_READ = "agentkit.cache.predicted_read_tokens"
LOST_TOKENS = "agentkit.cache.lost_tokens"
MISS_CAUSE = "agentkit.cache.miss.cause"
MISS_DETAIL = "agentkit.cache.miss.detail"
MISS_SEGMENT = "agentkit.cache.miss.segment"
MISS_SECTION = "agentkit.cache.miss.section"
MISS_BLOCK = "agentkit.cache.miss.block"
MISS_BYTE = "agentkit.cache.miss.byte"
MISS_SOURCE = "agentkit.cache.miss.source"
MISS_EVENT = "agentkit.cache.miss"
COST = "agentkit.cost.usd"
UNCACHED_COST = "agentkit.cost.uncached_usd"
LOST_COST = "agentkit.cost.lost_usd"
UNPRICED = "agentkit.cost.unpriced_requests"
KEEP_ALIVES = "agentkit.cache.keep_alive_requests"
RETRY_WAIT = "agentkit.retry.wait_s"
DROPPED_EVENT = "agentkit.turn_dropped"
HANDOFF_EVENT = "agentkit.handoff"
HANDOFF_FROM = "agentkit.handoff.from"
HANDOFF_TO = "agentkit.handoff.to"
UNREAD_TOKENS = "agentkit.handoff.unread_tokens"
COMPACTED_EVENT = "agentkit.context_compacted"
CALL_SUSPENDED = "agentkit.call.suspended"
EPOCH_CAUSE = "agentkit.epoch.cause"
TOKENS_BEFORE = "agentkit.epoch.tokens_before"
TOKENS_AFTER = "agentkit.epoch.tokens_after"

_PROVIDERS: Mapping[str, str] = {
    "openai-chat": "openai",
    "gemini": "gcp.gemini",
    "xai": "x_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
}
"""The conventions' names, where ours in model strings are others."""
_IN_PROCESS = frozenset(("local", "scripted", "function"))


def model_attributes(label: str) -> dict[str, str | int]:
    """Return provider, model, and the server's address if the model string has one."""
    prefix, _, rest = label.partition(":")
    found: dict[str, str | int] = {PROVIDER: _PROVIDERS.get(prefix, prefix)}
    if rest.startswith(("http://", "https://")):
        url, _, rest = rest.partition("#")
        parts = urlsplit(url)
        found[SERVER_ADDRESS] = parts.hostname or ""
        found[SERVER_PORT] = parts.port or (443 if parts.scheme == "https" else 80)
    found[REQUEST_MODEL] = rest or label
    return found


def is_in_process(label: str) -> bool:
    """Whether a model runs in this process, so that asking it is no remote call."""
    return label.partition(":")[0] in _IN_PROCESS
