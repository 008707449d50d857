"""Whether text that a model wrote is a JSON object that can be sent back as it is."""

from __future__ import annotations

import json
from typing import NoReturn


def is_json_object(text: str) -> bool:
    """Whether a text is a JSON object: without NaN or infinities, and with a UTF-8 form."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        # A lone surrogate has an escape in JSON and no UTF-8 form; APIs refuse it.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
