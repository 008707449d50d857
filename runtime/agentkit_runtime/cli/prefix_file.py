"""Files that say what requests begin with."""

from __future__ import annotations

import json
from pathlib import Path

from agentkit_runtime.errors import RuntimeFault

FIELDS = ("messages", "tools", "chat_template_kwargs")
"""What of a chat completion decides its prompt."""


class BadPrefixFile(RuntimeFault):
    """A file does not say what requests begin with."""


def read_prefix(path: Path) -> tuple[dict[str, object], list[str]]:
    """The prefix that a file has, and the fields in it that do nothing here.

    A `.json` file is a list of messages, or the body of a chat completion; the text of any other
    file is a system prompt.

    Raises:
        BadPrefixFile: it is none of these.
        OSError: it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadPrefixFile(f"{path} is no UTF-8 text: {error}") from error
    if path.suffix != ".json":
        if not text.strip():
            raise BadPrefixFile(f"{path} is empty")
        return {"messages": [{"role": "system", "content": text}]}, []
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadPrefixFile(f"{path} is no JSON: {error}") from error
    if isinstance(document, list):
        document = {"messages": document}
    if not isinstance(document, dict) or not document.get("messages"):
        raise BadPrefixFile(
            f"{path} has no messages; it should be a list of messages, or an object with "
            "messages and tools as in a chat completion"
        )
    prefix = {name: document[name] for name in FIELDS if document.get(name) is not None}
    return prefix, sorted(set(document) - set(FIELDS))
