"""What of a turn is Gemini's own: thought signatures, ids of calls, parts that we do not know.

A signature must come back on the part that it came with, and never on another. It is kept as a
`VendorItem` in front of that part. The data of an item is one of

    {"thoughtSignature": "..."}   belongs to the text or call that follows it
    {}                            a border: the texts on both sides are two parts
    anything else                 a whole part, replayed as it came
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agentkit.blocks import Json, VendorItem
from agentkit.caching.policy import plain_name

VENDOR = "gemini"
SIGNATURE = "thoughtSignature"
BORDER = "{}"

NO_SIGNATURE = "skip_thought_signature_validator"
"""What the API takes in place of a signature, for calls that another model made.

Source: ai.google.dev, thought signatures; Gemini 3 and later refuse calls without any.
"""

_UNSIGNED = re.compile(r"gemini-[12](\D|$)")
"""Models that do not ask for signatures."""
_OWN_ID = re.compile(r"gemini_call_")


def wants_signatures(model: str) -> bool:
    """Whether the model refuses function calls that nobody signed."""
    return _UNSIGNED.match(plain_name(model)) is None


def is_ours(source: str) -> bool:
    """Whether a vendor item was written by a model of this vendor."""
    return source.partition(":")[0] == VENDOR


def signature_of(item: VendorItem) -> str | None:
    """Return the signature that belongs to the part behind the item; None for other items."""
    data = json.loads(item.data)
    signature = data.get(SIGNATURE) if isinstance(data, dict) and len(data) == 1 else None
    return signature if isinstance(signature, str) else None


def signature_item(signature: str) -> str:
    """Return the data of the item that stands in front of a signed part."""
    return json.dumps({SIGNATURE: signature}, separators=(",", ":"))


def own_id(response_id: str, index: int) -> str:
    """Return an id for a call that the API gave none. Other vendors' APIs take it, too."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "", response_id)[:40]
    return f"gemini_call_{safe}_{index}"


def sent_id(call_id: str) -> Mapping[str, Json]:
    """Return the `id` member of a call or a result; empty for an id that the API did not give."""
    return {} if _OWN_ID.match(call_id) else {"id": call_id}
