"""Our metrics under the names that dashboards and routers of other servers read.

Names and meanings are vLLM's (`vllm/v1/metrics`) and SGLang's (`sglang/srt/metrics`) as of November
2026. llm-d's endpoint picker, for one, reads `vllm:num_requests_waiting`,
`vllm:num_requests_running`, `vllm:kv_cache_usage_perc` and `vllm:cache_config_info`.

One meaning is ours: a prompt with `n` above 1 counts once, as in the usage of its answer. vLLM
counts it for each answer (`vllm:prompt_tokens_total`, `vllm:prefix_cache_hits_total`), whose hits
are then mostly those of a prompt on itself; see vllm-project/vllm issue 56361.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from prometheus_client.registry import Collector

from agentkit_runtime.watching.options import Compat
from agentkit_runtime.watching.text_format import write_family

_BOTH: Final = (
    "prompt_tokens",
    "generation_tokens",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
)
"""Called the same by both."""

VLLM: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{f"agentkit_{name}": f"vllm:{name}" for name in _BOTH},
        "agentkit_requests_running": "vllm:num_requests_running",
        "agentkit_requests_waiting": "vllm:num_requests_waiting",
        "agentkit_kv_cache_usage_ratio": "vllm:kv_cache_usage_perc",
        "agentkit_prefix_cache_queries": "vllm:prefix_cache_queries",
        "agentkit_prefix_cache_hits": "vllm:prefix_cache_hits",
        "agentkit_preemptions": "vllm:num_preemptions",
        "agentkit_requests": "vllm:request_success",
        "agentkit_request_queue_time_seconds": "vllm:request_queue_time_seconds",
        "agentkit_request_prefill_time_seconds": "vllm:request_prefill_time_seconds",
        "agentkit_request_decode_time_seconds": "vllm:request_decode_time_seconds",
        "agentkit_request_prompt_tokens": "vllm:request_prompt_tokens",
        "agentkit_request_generation_tokens": "vllm:request_generation_tokens",
        "agentkit_draft_tokens": "vllm:spec_decode_num_draft_tokens",
        "agentkit_accepted_draft_tokens": "vllm:spec_decode_num_accepted_tokens",
        "agentkit_cache_config_info": "vllm:cache_config_info",
    }
)

SGLANG: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{f"agentkit_{name}": f"sglang:{name}" for name in _BOTH},
        "agentkit_requests_running": "sglang:num_running_reqs",
        "agentkit_requests_waiting": "sglang:num_queue_reqs",
        "agentkit_kv_cache_usage_ratio": "sglang:token_usage",
        "agentkit_kv_used_tokens": "sglang:num_used_tokens",
        "agentkit_prefix_cache_hit_ratio": "sglang:cache_hit_rate",
        "agentkit_generation_tokens_per_second": "sglang:gen_throughput",
        "agentkit_cached_tokens": "sglang:cached_tokens",
    }
)

_NAMES: Final[Mapping[Compat, Mapping[str, str]]] = MappingProxyType(
    {"vllm": VLLM, "sglang": SGLANG, "none": {}}
)
_MORE_LABELS: Final[Mapping[Compat, Mapping[str, str]]] = MappingProxyType(
    {"vllm": {"engine": "0"}, "sglang": {}, "none": {}}
)
"""Labels that each of their metrics has."""


class Page:
    """What `/metrics` shows: our families, each followed by its other name's."""

    def __init__(self, sources: Iterable[Collector], compat: Compat) -> None:
        self._sources = tuple(sources)
        self._names = _NAMES[compat]
        self._labels = _MORE_LABELS[compat]

    def write(self) -> bytes:
        """All families in Prometheus' text format."""
        lines: list[str] = []
        for source in self._sources:
            for family in source.collect():
                write_family(lines, family, family.name, {})
                if family.name in self._names:
                    write_family(lines, family, self._names[family.name], self._labels)
        return "".join(lines).encode()
