"""How tokens, shares, money and long texts are written for people."""

from __future__ import annotations

from decimal import Decimal

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.usage import Usage


def tokens_text(usage: Usage) -> str:
    """Return `1,234 in, 88% read, 56 out`; what is not known is not said."""
    parts = []
    if usage.input_tokens is not None:
        parts.append(f"{usage.input_tokens:,} in")
    if usage.hit_ratio is not None:
        parts.append(f"{share_text(usage.hit_ratio)} read")
    if usage.output_tokens is not None:
        parts.append(f"{usage.output_tokens:,} out")
    return ", ".join(parts) or "tokens unknown"


def share_text(share: float) -> str:
    """Return a share of 0 to 1 in percent; 100% only if it is all, and 0% only if it is nothing."""
    percent = round(share * 100)
    if 0 < share < 1:
        percent = min(99, max(1, percent))
    return f"{percent}%"


def usd_text(amount: AtLeast | None) -> str:
    """Return dollars, `+` where a part is unknown; empty where nothing costs money."""
    if amount is None:
        return ""
    if amount.unknown and not amount.known:
        return "unknown"
    return f"{dollars(amount.known)}{'+' if amount.unknown else ''}"


def dollars(amount: Decimal) -> str:
    """Return dollars to three digits that count."""
    if amount >= 1 or not amount:
        return f"${amount:,.2f}"
    digits = min(7, 2 - amount.adjusted())
    return "$" + f"{amount:.{digits}f}".rstrip("0").ljust(4, "0")


def one_line(text: str, most: int) -> str:
    """Return a text on one line, cut after `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."
