"""Anthropic Messages. Importing it does not import the SDK.

adapter.py     read first: AnthropicAdapter
options.py     what can be set for Claude alone
layout.py      tools, system, messages in cache order; what others share
  front.py messages.py calls.py attachments.py vendor.py   pieces of each kind, made once
  identity.py output.py                                    settings that entries are keyed by
body.py        pieces + marks = final bytes; limits.py: default length of an answer
sender.py      the bytes through the official SDK; errors.py: its errors in our words
reader.py      streamed events -> ours; blocks.py usage.py diagnostics.py: their parts
"""

from __future__ import annotations

from agentkit.models.hosted.anthropic.adapter import AnthropicAdapter
from agentkit.models.hosted.anthropic.options import AnthropicOptions

__all__ = ["AnthropicAdapter", "AnthropicOptions"]
