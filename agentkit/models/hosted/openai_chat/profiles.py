"""What servers that speak OpenAI's Chat Completions differ in, one row of data each.

How they cache is in `agentkit.caching.policy`; here is only how requests and answers are written.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentkit.caching.policy import Provider, Ttl, UsageField
from agentkit.models.hosted.call_ids import CallIdRule


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkField:
    """The field of a content part that marks the end of a reusable prefix."""

    name: str
    value: Mapping[str, str]
    """The field's value, without a lifetime."""
    ttls: tuple[Ttl, ...] = ()
    """What a user's mark may ask for as `ttl`, shortest first; empty: it has no `ttl`."""
    on_assistant: bool = False
    """Whether it works on a model's own text."""


class Replay(enum.StrEnum):
    """Whether a model's reasoning is sent back to it. Never depends on later messages."""

    NEVER = "never"
    WITH_CALLS = "with_calls"
    """As `reasoning_content` of turns with tool calls, where there is any."""
    ALWAYS_WITH_CALLS = "always_with_calls"
    """The same, and empty where the turn has none: the server demands the field."""
    DETAILS = "details"
    """As `reasoning_details`, item by item, exactly as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One server, or one kind of servers. Pass `dataclasses.replace(VLLM, ...)` for a variant."""

    provider: Provider
    """Whose cache rules hold, and the first half of the label."""
    base_url: str | None
    """Root of the API. None: the client's own, or for self-hosted servers, it must be given."""
    key_variable: str | None
    """The environment variable of the key; None: servers of this kind ask for none."""
    system_role: Literal["developer", "system"] = "system"
    mark: MarkField | None = None
    """Where there is one, content is always a list of parts, so a mark moves no other byte."""
    key_field: str | None = None
    """Body field of `CachePlan.cache_key`."""
    key_header: str | None = None
    """Header of `CachePlan.cache_key`."""
    cache_options: frozenset[str] = frozenset()
    """Members of `prompt_cache_options` that it knows."""
    retention: bool = False
    """Whether it takes `prompt_cache_retention`."""
    usage: UsageField | None = None
    """Where reads and writes are; None: as the cache policy says."""
    usage_at: tuple[tuple[str, ...], ...] = (("usage",),)
    """Where in a chunk the usage may be."""
    stream_usage: bool = True
    """Whether `stream_options.include_usage` is known."""
    served_by: str | None = None
    """Field of a chunk that names the host which a gateway chose."""
    images: bool = True
    files: bool = False
    """Whether documents go in as parts. Text files go in as text everywhere."""
    replay: Replay = Replay.NEVER
    allowed_tools: bool = False
    """Whether `tool_choice` takes a mask."""
    required: str = "required"
    """What `tool_choice` calls "some tool must be called"."""
    json_schema: bool = True
    """Whether answers can be bound to a schema. If not, it is told in the volatile text."""
    max_tokens_field: str = "max_tokens"
    seed_field: str = "seed"
    top_k: bool = False
    call_ids: CallIdRule | None = None
    """What ids of tool calls must be like; None: any text."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """More body fields that it needs with every request."""

    @property
    def is_self_hosted(self) -> bool:
        """Whether the user runs the server."""
        return self.key_variable is None


_CACHED = "usage.prompt_tokens_details.cached_tokens"
_WRITTEN = "usage.prompt_tokens_details.cache_write_tokens"

# sdk 3.57.0: part types; the API's own ttl is 30m only. Measured: nothing on a model's own text.
_BREAKPOINT = MarkField(
    name="prompt_cache_breakpoint", value={"mode": "explicit"}, ttls=(Ttl.THIRTY_MINUTES,)
)
# docs 2026-10-01
_EPHEMERAL = MarkField(
    name="cache_control",
    value={"type": "ephemeral"},
    ttls=(Ttl.FIVE_MINUTES, Ttl.ONE_HOUR),
    on_assistant=True,
)

OPENAI = Profile(  # sdk 3.57.0
    provider=Provider.OPENAI,
    base_url=None,
    key_variable="OPENAI_API_KEY",
    system_role="developer",
    mark=_BREAKPOINT,
    key_field="prompt_cache_key",
    cache_options=frozenset(("mode", "ttl")),
    retention=True,
    usage=UsageField(path=_CACHED, written_path=_WRITTEN),
    files=True,
    call_ids=CallIdRule(pattern="(?s).{1,40}"),  # measured: longer ones are refused
    allowed_tools=True,
    max_tokens_field="max_completion_tokens",
)

DEEPSEEK = Profile(  # docs 2026-10-01; thinking guide: a turn with calls must bring its reasoning
    provider=Provider.DEEPSEEK,
    base_url="https://api.deepseek.com",
    key_variable="DEEPSEEK_API_KEY",
    key_field="user_id",
    usage=UsageField(path="usage.prompt_cache_hit_tokens"),
    images=False,
    replay=Replay.ALWAYS_WITH_CALLS,
    json_schema=False,
)

VLLM = Profile(  # source of vLLM 0.33.0
    provider=Provider.VLLM, base_url=None, key_variable=None, top_k=True
)

SGLANG = Profile(  # source of SGLang 0.5.23
    provider=Provider.SGLANG, base_url=None, key_variable=None, top_k=True
)

TENSORRT_LLM = Profile(provider=Provider.TENSORRT_LLM, base_url=None, key_variable=None, top_k=True)

OPENROUTER = Profile(  # docs 2026-10-01
    provider=Provider.OPENROUTER,
    base_url="https://openrouter.ai/api/v1",
    key_variable="OPENROUTER_API_KEY",
    mark=_EPHEMERAL,
    served_by="provider",
    # Claude behind it takes these only, and each once.
    call_ids=CallIdRule(pattern="[a-zA-Z0-9_-]{1,64}", unique=True),
    files=True,
    replay=Replay.DETAILS,
    top_k=True,
)

XAI = Profile(  # docs 2026-10-01: on this API the key goes into a header
    provider=Provider.XAI,
    base_url="https://api.x.ai/v1",
    key_variable="XAI_API_KEY",
    key_header="x-grok-conv-id",
)

MISTRAL = Profile(  # docs 2026-10-01
    provider=Provider.MISTRAL,
    base_url="https://api.mistral.ai/v1",
    key_variable="MISTRAL_API_KEY",
    key_field="prompt_cache_key",
    stream_usage=False,  # it refuses fields that it does not know; usage comes anyway
    required="any",
    seed_field="random_seed",
    call_ids=CallIdRule(pattern="[a-zA-Z0-9]{9}", prefix="", digits=9),
)

GROQ = Profile(  # docs 2026-10-01; sdk groq 1.7.0: usage in a field of its own, too
    provider=Provider.GROQ,
    base_url="https://api.groq.com/openai/v1",
    key_variable="GROQ_API_KEY",
    usage_at=(("usage",), ("x_groq", "usage")),
    max_tokens_field="max_completion_tokens",
)

MOONSHOT = Profile(  # docs 2026-10-01
    provider=Provider.MOONSHOT,
    base_url="https://api.moonshot.ai/v1",
    key_variable="MOONSHOT_API_KEY",
    key_field="prompt_cache_key",
    cache_options=frozenset(("ttl",)),
    usage_at=(("usage",), ("choices", "0", "usage")),
    replay=Replay.WITH_CALLS,
)

ALIBABA = Profile(  # docs 2026-10-11: marks have one lifetime and do not name it
    provider=Provider.ALIBABA,
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    key_variable="DASHSCOPE_API_KEY",
    mark=MarkField(name="cache_control", value={"type": "ephemeral"}, on_assistant=True),
    top_k=True,
)

PROFILES: Mapping[str, Profile] = {
    profile.provider.value: profile
    for profile in (
        OPENAI,
        DEEPSEEK,
        VLLM,
        SGLANG,
        TENSORRT_LLM,
        OPENROUTER,
        XAI,
        MISTRAL,
        GROQ,
        MOONSHOT,
        ALIBABA,
    )
}
"""All rows, by the first half of a model string."""
