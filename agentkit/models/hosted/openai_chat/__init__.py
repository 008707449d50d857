"""OpenAI's Chat Completions, and the servers that speak it.

adapter.py   read first: ChatAdapter. Lays out, fills in, sends, learns what a server does not know
profiles.py  one row of data for each server: names of fields, what it takes, where usage is
layout.py    a request in cache order; encode.py: segments -> pieces; pieces.py: bytes and cuts
body.py      a layout and a plan -> final bytes; options.py: settings for all requests
stream.py    chunks -> events; calls.py, details.py, usage.py: their parts
clients.py   the official client; hosts.py: holding the host behind a gateway
"""

from __future__ import annotations

from agentkit.models.hosted.openai_chat.adapter import CacheUnreportedWarning, ChatAdapter
from agentkit.models.hosted.openai_chat.layout import ChatLayout
from agentkit.models.hosted.openai_chat.options import ChatOptions
from agentkit.models.hosted.openai_chat.profiles import (
    ALIBABA,
    DEEPSEEK,
    GROQ,
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    PROFILES,
    SGLANG,
    TENSORRT_LLM,
    VLLM,
    XAI,
    MarkField,
    Profile,
    Replay,
)

__all__ = [
    "ALIBABA",
    "DEEPSEEK",
    "GROQ",
    "MISTRAL",
    "MOONSHOT",
    "OPENAI",
    "OPENROUTER",
    "PROFILES",
    "SGLANG",
    "TENSORRT_LLM",
    "VLLM",
    "XAI",
    "CacheUnreportedWarning",
    "ChatAdapter",
    "ChatLayout",
    "ChatOptions",
    "MarkField",
    "Profile",
    "Replay",
]
