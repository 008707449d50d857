"""The resources of a server: listed in one order, read one by one.

Whatever is malformed is left out with a warning, and costs nothing else.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.toolset.errors import McpRequestError
from agentkit.toolset.mcp.lists.paging import Ask, all_pages
from agentkit.toolset.results import encodable


@dataclass(frozen=True, slots=True, kw_only=True)
class McpResource:
    """A resource that a server lists. All of it is the server's word."""

    uri: str
    name: str
    description: str = ""
    mime_type: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTemplate:
    """A pattern of URIs that a server can read, as in RFC 6570: `db://tables/{name}`."""

    uri_template: str
    name: str
    description: str = ""
    mime_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePart:
    """One content of a resource that was read: text, or bytes."""

    uri: str
    """Of this part; a folder may be read as many."""
    mime_type: str | None
    text: str | None
    """None for bytes."""
    data: bytes | None
    """None for text."""


async def list_resources(ask: Ask, warnings: list[str]) -> tuple[McpResource, ...]:
    """Return all resources by their URIs, in code-point order. Of equal URIs the first is kept."""
    found: dict[str, McpResource] = {}
    for member in await _members(ask, "resources/list", "resources", warnings):
        uri, size = text_of(member, "uri"), member.get("size")
        if not uri or uri in found:
            warnings.append(f"a resource was left out: its URI {uri!r} is empty or listed twice")
            continue
        found[uri] = McpResource(
            uri=uri,
            name=text_of(member, "name"),
            description=text_of(member, "description"),
            mime_type=text_of(member, "mimeType") or None,
            size_bytes=size if isinstance(size, int) and size >= 0 else None,
        )
    return tuple(found[uri] for uri in sorted(found))


async def list_templates(ask: Ask, warnings: list[str]) -> tuple[McpTemplate, ...]:
    """Return all templates of URIs, in code-point order."""
    found: dict[str, McpTemplate] = {}
    for member in await _members(ask, "resources/templates/list", "resourceTemplates", warnings):
        template = text_of(member, "uriTemplate")
        if not template or template in found:
            warnings.append(f"a template was left out: {template!r} is empty or listed twice")
            continue
        found[template] = McpTemplate(
            uri_template=template,
            name=text_of(member, "name"),
            description=text_of(member, "description"),
            mime_type=text_of(member, "mimeType") or None,
        )
    return tuple(found[template] for template in sorted(found))


async def read_resource(ask: Ask, uri: str) -> tuple[ResourcePart, ...]:
    """Return the contents of a resource, by URI.

    Raises:
        McpRequestError: the server refused, or its answer cannot be read.
    """
    result = await ask("resources/read", {"uri": uri})
    contents = result.get("contents")
    if not isinstance(contents, list):
        raise McpRequestError(f"the server read {uri!r} as something that is no list of contents")
    parts = [_part(each, uri) for each in contents if isinstance(each, Mapping)]
    return tuple(sorted(parts, key=lambda part: part.uri))


def text_of(member: Mapping[str, object], key: str) -> str:
    """Return a text of a server's JSON object that has a UTF-8 form; empty if it has none there."""
    value = member.get(key)
    return encodable(value) if isinstance(value, str) else ""


async def _members(
    ask: Ask, method: str, key: str, warnings: list[str]
) -> list[Mapping[str, object]]:
    members, _ = await all_pages(ask, method, key, warnings)
    return [member for member in members if isinstance(member, Mapping)]


def _part(content: Mapping[str, object], uri: str) -> ResourcePart:
    text, blob = content.get("text"), content.get("blob")
    data: bytes | None = None
    if not isinstance(text, str):
        try:
            data = base64.b64decode(blob if isinstance(blob, str) else "", validate=True)
        except (ValueError, binascii.Error) as error:
            raise McpRequestError(f"the server sent {uri!r} as damaged base64") from error
    return ResourcePart(
        uri=text_of(content, "uri") or uri,
        mime_type=text_of(content, "mimeType") or None,
        text=encodable(text) if isinstance(text, str) else None,
        data=data,
    )
