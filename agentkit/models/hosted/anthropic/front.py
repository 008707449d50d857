"""What lies before the history: tools and system text."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.blocks import Json
from agentkit.caching.policy import BlockKind
from agentkit.context import Document, SystemText
from agentkit.models.documents import document_text
from agentkit.models.hosted.anthropic.pieces import Piece, piece
from agentkit.models.hosted.wire_json import compact_json
from agentkit.toolset import ToolSpec
from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.provider_forms import schema_form

_WEB_TOOLS = ("web_search", "web_fetch")


def tool_piece(spec: ToolSpec) -> Piece:
    """Return a tool's definition, with its schema in the form that the API takes."""
    description = b',"description":' + compact_json(spec.description) if spec.description else b""
    schema = canonical_json(schema_form(spec, "anthropic").parameters)
    return piece(
        BlockKind.TOOL,
        b'{"name":%b%b,"input_schema":%b}' % (compact_json(spec.name), description, schema),
    )


def later_tool_piece(spec: ToolSpec) -> Piece:
    """Return the block that defines a tool in mid-conversation, in a system message."""
    definition = tool_piece(spec).data
    return piece(
        BlockKind.TOOL_ADDITION,
        b'{"type":"tool_addition","tool":{"type":"tool_definition","definition":%b}}' % definition,
    )


def server_tool_piece(tool: Mapping[str, Json]) -> Piece:
    """Return the definition of a tool that the API runs."""
    return piece(_tool_kind(tool), canonical_json(tool))


def has_web_tools(tools: tuple[Mapping[str, Json], ...]) -> bool:
    """Whether web search or web fetch is among the tools."""
    return any(_type(tool).startswith(_WEB_TOOLS) for tool in tools)


def system_pieces(content: SystemText | Document) -> tuple[Piece, ...]:
    """Return the text block of rules, role, examples or a document; none for empty text."""
    text = content.text if isinstance(content, SystemText) else document_text(content)
    return (text_piece(text),) if text.strip() else ()


def text_piece(text: str) -> Piece:
    """Return a text block."""
    return piece(BlockKind.TEXT, text_data(text))


def text_data(text: str) -> bytes:
    """Return the JSON of a text block."""
    return b'{"type":"text","text":%b}' % compact_json(text)


def _tool_kind(tool: Mapping[str, Json]) -> BlockKind:
    if tool.get("defer_loading") is True:
        return BlockKind.DEFERRED_TOOL
    return BlockKind.TOOLSET if "toolset" in _type(tool) else BlockKind.TOOL


def _type(tool: Mapping[str, Json]) -> str:
    return str(tool.get("type", ""))
