"""The words in which cache rules are written: closed sets that every provider shares."""

from __future__ import annotations

import enum


class Provider(enum.StrEnum):
    """Who serves the model, which decides the cache rules."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    DEEPSEEK = "deepseek"
    GEMINI = "gemini"
    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "trtllm"
    OPENROUTER = "openrouter"
    XAI = "xai"
    MISTRAL = "mistral"
    GROQ = "groq"
    MOONSHOT = "moonshot"
    ALIBABA = "alibaba"


class Platform(enum.StrEnum):
    """Where a provider's models are hosted; minimums, isolation and prices differ by it."""

    DIRECT = "direct"
    """The provider's own API."""
    BEDROCK = "bedrock"
    BEDROCK_LEGACY = "bedrock-legacy"
    """The Bedrock integration of Claude Opus 4.6 and older."""
    GOOGLE_CLOUD = "google-cloud"
    """Claude or Gemini on Google Cloud (Vertex AI)."""
    AZURE = "azure"
    """OpenAI models on Azure, Claude on Foundry."""


class Section(enum.StrEnum):
    """A cache tier as it lies on the wire. A change in one loses it and all that follow."""

    TOOLS = "tools"
    SYSTEM = "system"
    """System prompt, instructions, and the developer messages before the first other message."""
    MESSAGES = "messages"


class BlockKind(enum.StrEnum):
    """What a piece of a request is, as far as cache rules care."""

    TOOL = "tool"
    DEFERRED_TOOL = "deferred_tool"
    """A tool with `defer_loading`: its definition stays out of the prefix."""
    TOOLSET = "toolset"
    """An MCP, computer or browser toolset entry."""
    INSTRUCTIONS = "instructions"
    """OpenAI's top-level `instructions`."""
    ADDITIONAL_TOOLS = "additional_tools"
    """OpenAI's item that adds tools in mid-thread."""
    TEXT = "text"
    """Text with no tokens is what the providers call an empty text block."""
    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    SEARCH_RESULT = "search_result"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    PROGRAMMATIC_TOOL_USE = "programmatic_tool_use"
    """A call that code in Anthropic's sandbox made, and not the model itself."""
    PROGRAMMATIC_TOOL_RESULT = "programmatic_tool_result"
    SERVER_TOOL_USE = "server_tool_use"
    SERVER_TOOL_RESULT = "server_tool_result"
    TOOL_REFERENCE = "tool_reference"
    CONTAINER_UPLOAD = "container_upload"
    BROWSER_STATE = "browser_state"
    COMPACTION = "compaction"
    TOOL_ADDITION = "tool_addition"
    TOOL_REMOVAL = "tool_removal"
    CLEARED_SYSTEM = "cleared_system"
    """A mid-conversation system message with `clear_at`."""
    THINKING = "thinking"
    REDACTED_THINKING = "redacted_thinking"


_SECONDS = {"m": 60, "h": 3_600}


class Ttl(enum.StrEnum):
    """A lifetime that can be chosen for a written entry."""

    FIVE_MINUTES = "5m"
    THIRTY_MINUTES = "30m"
    ONE_HOUR = "1h"
    TWELVE_HOURS = "12h"

    seconds: int
    """The lifetime in seconds."""

    def __init__(self, value: str) -> None:
        self.seconds = int(value[:-1]) * _SECONDS[value[-1]]


class Isolation(enum.StrEnum):
    """Who shares entries. Organisations never share."""

    WORKSPACE = "workspace"
    ORGANIZATION = "organization"
    REGION = "region"
    """Within one processing region of an organisation."""


class ReadableWhen(enum.StrEnum):
    """When what a request wrote can be read by another."""

    RESPONSE_BEGINS = "response_begins"
    """With the first byte of the writing response; a request without output: at its end."""
    SECONDS_AFTER_END = "seconds_after_end"
    RESPONSE_ENDS = "response_ends"
    COMPUTED = "computed"
    """Block by block, as soon as it is computed."""


class Change(enum.StrEnum):
    """Something in a request, other than its blocks, that entries are keyed by."""

    MODEL = "model"
    SPEED = "speed"
    SERVICE_TIER = "service_tier"
    CACHE_KEY = "cache_key"
    WEB_TOOLS = "web_tools"
    """Web search or web fetch on or off."""
    CITATIONS = "citations"
    TOOL_CHOICE = "tool_choice"
    PARALLEL_TOOLS = "parallel_tools"
    IMAGES = "images"
    """Whether there is any image anywhere in the prompt."""
    THINKING = "thinking"
    """Thinking mode and its token budget."""
    EFFORT = "effort"
    VERBOSITY = "verbosity"
    OUTPUT_FORMAT = "output_format"
    CONTEXT_MANAGEMENT = "context_management"
    BETAS = "betas"
    """The set of active beta headers."""
    FIRST_TOOLS_LATER = "first_tools_later"
    """Whether all tools that are shown came in mid-conversation."""
