"""Resources and prompts of a server, in both protocols."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from mcp.server import MCPServer

from agentkit.toolset.errors import McpConnectError, McpRequestError
from agentkit.toolset.mcp import McpConnection, McpServer
from agentkit.toolset.mcp.content.prompts import list_prompts
from agentkit.toolset.mcp.content.resources import list_resources, list_templates, read_resource
from agentkit.toolset.mcp.lists.paging import all_pages
from tests.agentkit.mcp.content.shelf import PNG, Shelf


async def test_resources_of_all_pages_come_in_one_order(
    shelf: Shelf, connection: McpConnection
) -> None:
    shelf.texts = dict.fromkeys(["c://3", "a://1", "b://2", "e://5", "d://4"], "x")
    uris = [each.uri for each in await connection.resources()]
    assert uris == ["a://1", "b://2", "c://3", "d://4", "e://5"]
    (template,) = await connection.resource_templates()
    assert template.uri_template == "doc://{name}"


async def test_a_resource_is_read_as_text_or_bytes(shelf: Shelf, connection: McpConnection) -> None:
    shelf.texts = {"a://1": "text", "b://2": PNG}
    (text,) = await connection.read_resource("a://1")
    (picture,) = await connection.read_resource("b://2")
    assert (text.text, text.data) == ("text", None)
    assert (picture.text, picture.data, picture.mime_type) == (None, PNG, "image/png")


async def test_what_a_server_refuses_is_an_error_that_names_it(connection: McpConnection) -> None:
    with pytest.raises(McpRequestError, match=r"'docs'.*not found") as raised:
        await connection.read_resource("no://where")
    assert raised.value.code == -32002


async def test_a_prompt_is_filled_in(connection: McpConnection) -> None:
    greet, visit = await connection.prompts()
    assert (greet.name, visit.name) == ("greet", "visit")
    assert visit.arguments[0].name == "place"
    assert visit.arguments[0].is_required
    one = await connection.prompt("greet", {"place": "Lund"})
    assert one.text == "What is there in Lund?"
    many = await connection.prompt("visit", {"place": "Lund"})
    assert many.text.startswith(
        "user: What is there in Lund?\n\nassistant: A museum.\n\nuser: [image"
    )


async def test_a_server_without_them_has_none() -> None:
    async with McpServer(alias="bare", server=MCPServer("bare")).connect() as bare:
        assert await bare.resources() == ()
        assert await bare.prompts() == ()


async def test_a_closed_connection_says_so(shelf: Shelf) -> None:
    connection = McpServer(alias="docs", server=shelf.server).connect()
    async with connection:
        pass
    with pytest.raises(McpConnectError, match="closed"):
        await connection.resources()


def answering(*pages: Mapping[str, object]):  # type: ignore[no-untyped-def]
    """A server that answers with these, one after the other, and the last one for ever."""
    left = list(pages)

    async def ask(method: str, params: dict[str, object]) -> Mapping[str, object]:
        return left.pop(0) if len(left) > 1 else left[0]

    return ask


async def test_malformed_members_cost_nothing_but_themselves() -> None:
    odd = ["text", {"name": "no uri"}, {"uri": 7}, {"uri": "a"}, {"uri": "a", "name": "again"}]
    warnings: list[str] = []
    (only,) = await list_resources(answering({"resources": [*odd, {"uri": ""}]}), warnings)
    assert (only.uri, only.name, only.size_bytes) == ("a", "", None)
    assert len(warnings) == 4
    assert await list_templates(answering({"resourceTemplates": odd}), []) == ()
    assert await list_prompts(answering({"prompts": odd}), []) != ()
    assert await list_resources(answering({"resources": 3}), warnings) == ()


async def test_a_list_that_does_not_end_is_cut() -> None:
    warnings: list[str] = []
    page = {"resources": [{"uri": "a"}], "nextCursor": "again"}
    members, _ = await all_pages(answering(page), "resources/list", "resources", warnings)
    assert len(members) == 2
    assert "repeats its page" in warnings[0]
    page = {"resources": [], "nextCursor": "\ud800"}
    members, _ = await all_pages(answering(page), "resources/list", "resources", warnings)
    assert members == []
    assert "no text" in warnings[1]


@pytest.mark.parametrize(
    "answer", [{}, {"contents": "text"}, {"contents": [{"uri": "a", "blob": "*"}]}]
)
async def test_an_answer_that_cannot_be_read_is_an_error(answer: Mapping[str, object]) -> None:
    with pytest.raises(McpRequestError):
        await read_resource(answering(answer), "a")


async def test_text_without_a_utf8_form_is_made_to_have_one() -> None:
    (part,) = await read_resource(answering({"contents": [{"text": "a\ud800b"}]}), "a://\ud801")
    assert part.text is not None
    part.text.encode()
