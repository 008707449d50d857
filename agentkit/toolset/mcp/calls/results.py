"""From the raw result of an MCP call to what the model reads and sees.

Everything a server may send has an answer here: nothing is dropped without a note, nothing is
said twice, and nothing is longer than the limit, since what enters a context stays in it. Images
and PDFs become attachments if their bytes are what every provider can read; what the server says
of them is not believed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentkit.blocks import File, Image
from agentkit.toolset.attachments import MOST_BYTES, BadAttachment, image_of, pdf_of
from agentkit.toolset.mcp.calls.structured import joined
from agentkit.toolset.results import encodable, finite
from agentkit.toolset.tool import ToolOutput

_MOST_ATTACHMENTS = 20
"""Of one result."""
_MOST_REFUSED = 100
"""Attachments that are looked at in vain; then no more are."""
_MOST_BLOCKS = 1_000
_LABEL_CHARS = 500
"""Of a URI, a name or a type in a note."""
_COMPLETE = "complete"
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


def to_tool_output(
    result: Mapping[str, object], max_chars: int, max_attachment_bytes: int = MOST_BYTES
) -> ToolOutput:
    """Map a `tools/call` result.

    Text blocks are joined by line breaks. Structured content is shown, as compact JSON, only if
    the text does not say it already. Images and PDFs are attached; what cannot be shown, and what
    is meant for the user alone, leaves a note, and its data is in `blocks`.

    Args:
        result: as it came over the wire, with anything in it.
        max_chars: of the text; a longer one is cut to its head and tail.
        max_attachment_bytes: of all attachments together, decoded.
    """
    try:
        return _to_tool_output(result, max_chars, max_attachment_bytes)
    except RecursionError:
        return ToolOutput.error("The server sent a result that is nested too deeply to be read.")
    except (TypeError, ValueError) as error:
        # No JSON does this; a server object in this process may hold anything.
        return ToolOutput.error(f"The server sent a result that cannot be read: {_label(error)}")


def cut(text: str, max_chars: int) -> str:
    """Shorten a text to its head and tail, with a note of how much is missing between them."""
    if len(text) <= max_chars:
        return text
    note = (
        f"\n[... {len(text)} characters in all, the middle was cut; ask for a smaller part ...]\n"
    )
    room = max(0, max_chars - len(note))
    n_tail = room // 3
    return (text[: room - n_tail] + note + text[len(text) - n_tail :])[:max_chars]


def _to_tool_output(
    result: Mapping[str, object], max_chars: int, max_attachment_bytes: int
) -> ToolOutput:
    if result.get("resultType") == "input_required":
        return ToolOutput.error(
            "The tool asks for input from a person, which is not possible here."
        )
    kind = result.get("resultType")
    if kind not in (None, _COMPLETE) and not result.keys() & {"content", "structuredContent"}:
        problem = (
            f"The server answered with a result of the kind {_label(kind)!r}, which cannot be read "
            "here. Whether the call had an effect is unknown."
        )
        return ToolOutput.error(cut(problem, max_chars))
    raw_blocks = result.get("content", [])
    if not isinstance(raw_blocks, list):
        return ToolOutput.error("The server sent a malformed result: its content is no list.")
    shown = _Shown(max_attachment_bytes)
    blocks = [block if isinstance(block, Mapping) else {"type": "unknown"} for block in raw_blocks]
    for block in blocks[:_MOST_BLOCKS]:
        shown.add(block)
    if len(blocks) > _MOST_BLOCKS:
        shown.note(f"[{len(blocks) - _MOST_BLOCKS} more blocks, not shown]")
    structured = finite(result.get("structuredContent"))
    is_error = result.get("isError") is True
    text = shown.with_structured(structured) or (
        "The tool failed without a message." if is_error else "ok"
    )
    return ToolOutput(
        content=cut(encodable(text), max_chars),
        is_error=is_error,
        attachments=tuple(shown.attachments),
        blocks=tuple(
            block for block in blocks if block.get("type") != "text" or _is_private(block)
        ),
        structured=structured,
    )


@dataclass(slots=True)
class _Shown:
    """What the model is shown, block by block."""

    bytes_left: int
    said: list[str] = field(default_factory=list)
    """The text blocks."""
    notes: list[str] = field(default_factory=list)
    """What stands for all others."""
    parts: list[str] = field(default_factory=list)
    """Both, in their order."""
    attachments: list[Image | File] = field(default_factory=list)
    n_refused: int = 0
    """Attachments that were looked at in vain."""

    def add(self, block: Mapping[str, object]) -> None:
        """Show a block, or say in a note why not."""
        if _is_private(block):
            self.note(f"[{_label(block.get('type'))} for the user only, not shown]")
            return
        match block.get("type"):
            case "text":
                text = block.get("text")
                if isinstance(text, str):
                    self.said.append(text)
                    self.parts.append(text)
                else:
                    self.note("[text block without text]")
            case "image":
                self._attach("image", block.get("mimeType"), block.get("data"), "")
            case "audio":
                self.note(f"[audio: {_mime(block)}, {_size(block.get('data'))}, not shown]")
            case "resource_link":
                self.note(f"[resource {_label(block.get('uri'))}: {_link_text(block)}]")
            case "resource":
                self._add_resource(block.get("resource"))
            case other:
                self.note(f"[content of type {_label(other)!r}, not shown]")

    def with_structured(self, structured: object) -> str:
        """Return all of it as text. What is structured comes once: behind what does not say it."""
        if structured is None:
            return "\n".join(self.parts)
        return "\n".join([joined(self.said, structured), *self.notes])

    def note(self, text: str) -> None:
        """Say something in place of a block."""
        self.notes.append(text)
        self.parts.append(text)

    def _add_resource(self, resource: object) -> None:
        if not isinstance(resource, Mapping):
            self.note("[resource, malformed]")
            return
        head = f"resource {_label(resource.get('uri'))}"
        text = resource.get("text")
        if not isinstance(text, str):
            text = _decoded_text(resource.get("mimeType"), resource.get("blob"))
        if text is not None:
            self.note(f"[{head}: {_mime(resource)}]\n{text}")
        else:
            name = _label(resource.get("uri")).rsplit("/", 1)[-1]
            self._attach(head, resource.get("mimeType"), resource.get("blob"), name)

    def _attach(self, what: str, mime: object, data: object, name: str) -> None:
        """Attach an image or a PDF by its bytes, whatever its type is said to be."""
        size = _size(data)
        kind = _label(mime) if isinstance(mime, str) else "unknown type"
        try:
            if len(self.attachments) >= _MOST_ATTACHMENTS:
                raise BadAttachment(f"there are more than {_MOST_ATTACHMENTS}")
            if self.n_refused >= _MOST_REFUSED:
                raise BadAttachment(f"{_MOST_REFUSED} others were refused already")
            made = _attachment(kind, data, name or "document", self.bytes_left)
        except BadAttachment as error:
            self.n_refused += 1
            reason = "" if not _may_be_shown(kind) else f": {error}"
            self.note(f"[{what}: {kind}, {size}, not shown{reason}]")
            return
        self.bytes_left -= _n_bytes(made.data or "")
        self.attachments.append(made)
        self.note(f"[{what}: {made.media_type}, {size}, attached]")


def _attachment(kind: str, data: object, name: str, most_bytes: int) -> Image | File:
    if kind == "application/pdf":
        title = name if name.lower().endswith(".pdf") else f"{name}.pdf"
        return pdf_of(data, title, min(MOST_BYTES, max(0, most_bytes)))
    return image_of(data, min(MOST_BYTES, max(0, most_bytes)))


def _may_be_shown(kind: str) -> bool:
    """Whether a reader of the note wonders why it is not shown."""
    return kind.startswith("image/") or kind == "application/pdf"


def _is_private(block: Mapping[str, object]) -> bool:
    """Whether a block is for the user and not for the model."""
    annotations = block.get("annotations")
    audience = annotations.get("audience") if isinstance(annotations, Mapping) else None
    return isinstance(audience, list) and "user" in audience and "assistant" not in audience


def _decoded_text(mime: object, blob: object) -> str | None:
    """The text of a resource that came as bytes; None if it is none."""
    if not isinstance(mime, str) or not isinstance(blob, str):
        return None
    kind = mime.split(";", 1)[0].strip().lower()
    if not kind.startswith("text/") and kind not in _TEXT_TYPES and not kind.endswith("+json"):
        return None
    try:
        return base64.b64decode(blob, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _link_text(block: Mapping[str, object]) -> str:
    name = _label(block.get("name", ""))
    said = block.get("description")
    return f"{name}, {_label(said)}" if isinstance(said, str) and said else name


def _mime(block: Mapping[str, object]) -> str:
    return _label(block.get("mimeType", "unknown type"))


def _label(value: object) -> str:
    """A short text of the server's, on one line."""
    text = encodable(" ".join(str(value)[: 4 * _LABEL_CHARS].split()))
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= _LABEL_CHARS else f"{text[: _LABEL_CHARS - 3]}..."


def _size(data: object) -> str:
    """The size of base64 data."""
    return f"{_n_bytes(data)} bytes" if isinstance(data, str) else "no data"


def _n_bytes(data: str) -> int:
    return len(data.rstrip("=")) * 3 // 4
