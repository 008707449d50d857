"""OpenAI's Chat Completions, and the servers that speak it.

adapter.py   read first: ChatAdapter lays out, fills in and sends
profiles.py  one row of data for each server: names of fields, what it takes, where usage is
options.py   what an app sets for all requests; rules.py: what the cache policy adds
layout.py    a request in cache order
encode.py    segments -> pieces (pieces.py: bytes and cuts; store.py keeps them); its parts are
             system.py, content.py, attachments.py, ids.py
body.py      a layout and a plan -> final bytes
stream.py    chunks -> events; calls.py, details.py, usage.py: their parts
learning.py  what a server refuses or does not tell; hosts.py: holding the host behind a gateway
clients.py   the official client, for each event loop
"""

from __future__ import annotations

from agentkit.models.hosted.call_ids import CallIdRule
from agentkit.models.hosted.openai_chat.adapter import ChatAdapter
from agentkit.models.hosted.openai_chat.layout import ChatLayout
from agentkit.models.hosted.openai_chat.learning import CacheUnreportedWarning
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
    "CallIdRule",
    "ChatAdapter",
    "ChatLayout",
    "ChatOptions",
    "MarkField",
    "Profile",
    "Replay",
]
