"""Ids of calls that the API takes. Source: its errors for longer or other values (measured)."""

from __future__ import annotations

from agentkit.models.hosted.call_ids import CallIdRule

CALL_IDS = CallIdRule(pattern="(?s).{1,64}", unique=True, digits=24, hash_bytes=12)
