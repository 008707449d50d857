"""From the raw result of an MCP call to the text that the model reads.

Everything a server may send has an answer here: nothing is dropped without a note, nothing is
said twice, and nothing is longer than the limit, since what enters a context stays in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentkit.toolset.results import encodable, finite
from agentkit.toolset.tool import ToolOutput


def to_tool_output(result: Mapping[str, object], max_chars: int) -> ToolOutput:
    """Map a `tools/call` result.

    Text blocks are joined by line breaks. Structured content is shown, as compact JSON, only if
    the text does not say it already. Images, audio and resources leave a note; their data is in
    `blocks`.
    """
    try:
        return _to_tool_output(result, max_chars)
    except RecursionError:
        return ToolOutput.error("The server sent a result that is nested too deeply to be read.")


def _to_tool_output(result: Mapping[str, object], max_chars: int) -> ToolOutput:
    if result.get("resultType") == "input_required":
        return ToolOutput.error(
            "The tool asks for input from a person, which is not possible here."
        )
    raw_blocks = result.get("content", [])
    if not isinstance(raw_blocks, list):
        return ToolOutput.error("The server sent a malformed result: its content is no list.")
    blocks = [block if isinstance(block, Mapping) else {"type": "unknown"} for block in raw_blocks]
    texts = [_text_of(block) for block in blocks]
    structured = finite(result.get("structuredContent"))
    is_error = result.get("isError") is True
    shown = _joined(texts, structured) or (
        "The tool failed without a message." if is_error else "ok"
    )
    return ToolOutput(
        content=cut(encodable(shown), max_chars),
        is_error=is_error,
        blocks=tuple(block for block in blocks if block.get("type") != "text"),
        structured=structured,
    )


def cut(text: str, max_chars: int) -> str:
    """Shorten a text to its head and tail, with a note of how much is missing between them."""
    if len(text) <= max_chars:
        return text
    note = (
        f"\n[... {len(text)} characters in all, the middle was cut; ask for a smaller part ...]\n"
    )
    room = max(0, max_chars - len(note))
    n_tail = room // 3
    return text[: room - n_tail] + note + text[len(text) - n_tail :]


def _joined(texts: list[str], structured: object) -> str:
    if structured is None:
        return "\n".join(texts)
    if not texts:
        return _compact(structured)
    # SDKs wrap results that are no objects as {"result": ...}, and give each list member a block.
    value = structured
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        value = structured["result"]
    joined = "\n".join(texts)
    if value in (joined, texts):
        return joined
    parsed = _parse(joined)
    if parsed == structured:
        return _compact(structured)
    if parsed == value or [_parse(text) for text in texts] == value:
        return _compact(value)
    return f"{joined}\n{_compact(structured)}"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(text: str) -> object:
    """The JSON value that the text is, or the text itself."""
    try:
        return finite(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _text_of(block: Mapping[str, object]) -> str:
    """The text of a text block; for other blocks a note that says what is not shown."""
    kind = block.get("type")
    match kind:
        case "text":
            text = block.get("text")
            return text if isinstance(text, str) else "[text block without text]"
        case "image" | "audio":
            return f"[{kind}: {_mime(block)}, {_size(block.get('data'))}, not shown]"
        case "resource_link":
            return f"[resource {block.get('uri')}: {block.get('name', '')}]"
        case "resource":
            return _resource_text(block.get("resource"))
        case _:
            return f"[content of type {kind!r}, not shown]"


def _resource_text(resource: object) -> str:
    if not isinstance(resource, Mapping):
        return "[resource, malformed]"
    head = f"[resource {resource.get('uri')}: {_mime(resource)}"
    if isinstance(text := resource.get("text"), str):
        return f"{head}]\n{text}"
    return f"{head}, {_size(resource.get('blob'))}, not shown]"


def _mime(block: Mapping[str, object]) -> object:
    return block.get("mimeType", "unknown type")


def _size(data: object) -> str:
    """The size of base64 data."""
    return f"{len(data) * 3 // 4} bytes" if isinstance(data, str) else "no data"
