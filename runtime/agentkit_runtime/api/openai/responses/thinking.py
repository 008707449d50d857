"""Thinking that clients carry for us, opaque to them: `include: ["reasoning.encrypted_content"]`.

Clients that keep conversations themselves send thinking back as the provider's sealed text, and
some of them send nothing else of it. Ours is sealed by nothing: the same thinking stands beside it
in the clear. But so the next prompt has it again, and begins with what was generated.
"""

from __future__ import annotations

import base64
import binascii

_MARK = "agentkit1."


def carried(thinking: str) -> str:
    """Thinking in the form in which clients send it back."""
    return f"{_MARK}{base64.urlsafe_b64encode(thinking.encode()).decode('ascii')}"


def thinking_in(text: str) -> str:
    """The thinking that a client sends back; empty where another server has sealed it."""
    if not text.startswith(_MARK):
        return ""
    try:
        return base64.b64decode(text.removeprefix(_MARK), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
