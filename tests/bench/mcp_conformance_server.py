"""A server with what the conformance suite wants to call, served as our own servers are.

    python tests/bench/mcp_conformance_server.py fixture|agent PORT

`fixture` has the tools, resources and prompts that the scenarios name; `agent` is a served agent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Annotated, Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, Elicit, Resolve, Sample
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp_types import (
    AudioContent,
    Completion,
    CreateMessageResult,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from agentkit import Agent
from agentkit.serving import http_app, serve_mcp
from agentkit.testing import ScriptedModel

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
HINT = CacheHint(ttl_ms=60_000, scope="public")


class Name(BaseModel):
    name: str


def which_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


def words() -> Sample:
    said = SamplingMessage(role="user", content=TextContent(text="Say a word."))
    return Sample([said], max_tokens=10)


def resource(uri: str, text: str, mime: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime, text=text))


def fixture() -> MCPServer:
    """Return the server whose parts the scenarios name."""
    methods = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    hints: Any = dict.fromkeys((*methods, "resources/read", "server/discover"), HINT)
    server = MCPServer("conformance", version="1", cache_hints=hints)
    _add_tools(server)
    _add_asking_tools(server)
    _add_changing_tools(server)
    _add_resources(server)
    _add_prompts(server)
    return server


def _add_tools(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    def test_simple_text() -> str:
        """Returns text."""
        return "This is a simple text response for testing."

    @server.tool(structured_output=False)
    def test_image_content() -> ImageContent:
        """Returns an image."""
        return ImageContent(data=PNG, mime_type="image/png")

    @server.tool(structured_output=False)
    def test_audio_content() -> AudioContent:
        """Returns a sound."""
        return AudioContent(data=WAV, mime_type="audio/wav")

    @server.tool(structured_output=False)
    def test_embedded_resource() -> EmbeddedResource:
        """Returns a resource."""
        return resource("test://embedded-resource", "This is an embedded resource content.")

    @server.tool(structured_output=False)
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Returns a text, an image and a resource."""
        data = resource(
            "test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"
        )
        text = TextContent(text="Multiple content types test:")
        return [text, ImageContent(data=PNG, mime_type="image/png"), data]

    @server.tool(structured_output=False)
    def test_error_handling() -> str:
        """Fails."""
        raise RuntimeError("This tool intentionally returns an error for testing")

    @server.tool(structured_output=False)
    async def test_tool_with_progress(ctx: Context[Any, Any]) -> str:
        """Reports progress."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"Completed step {done} of 100")
            await asyncio.sleep(0.05)
        return "done"


def _add_asking_tools(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    def test_missing_capability(said: Annotated[CreateMessageResult, Resolve(words)]) -> str:
        """Needs a client that samples."""
        return "done"

    @server.tool(structured_output=False)
    def test_streaming_elicitation(given: Annotated[Name, Resolve(which_name)]) -> str:
        """Needs a client that asks its user."""
        return f"Hello, {given.name}."

    @server.tool(structured_output=False)
    async def test_logging_tool(ctx: Context[Any, Any]) -> str:
        """Logs."""
        await ctx.info("This is a log message for testing.")
        return "done"


def _add_changing_tools(server: MCPServer) -> None:
    def added() -> str:
        """Is there since a call."""
        return "done"

    @server.tool(structured_output=False)
    async def test_trigger_tool_change(ctx: Context[Any, Any]) -> str:
        """Adds a tool, or takes it away."""
        if any(each.name == "added" for each in await server.list_tools()):
            server.remove_tool("added")
        else:
            server.add_tool(added)
        await ctx.notify_tools_changed()
        return "done"

    @server.tool(structured_output=False)
    async def test_trigger_prompt_change(ctx: Context[Any, Any]) -> str:
        """Adds a prompt, or says once more that it has."""
        if all(each.name != "added" for each in await server.list_prompts()):
            server.prompt(name="added")(added)
        await ctx.notify_prompts_changed()
        return "done"


def _add_resources(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        """A text for an id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(server: MCPServer) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """Takes nothing."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Takes two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        """Has a resource in it."""
        text = "Embedded resource content for testing."
        return [UserMessage(resource(resourceUri, text)), UserMessage("Please process it.")]

    @server.prompt()
    def test_prompt_with_image() -> list[Message]:
        """Has an image in it."""
        return [
            UserMessage(ImageContent(data=PNG, mime_type="image/png")),
            UserMessage("Please analyze the image above."),
        ]

    async def complete(*given: object) -> Completion:
        """Suggest nothing."""
        return Completion(values=[], total=0, has_more=False)

    untyped: Any = server
    untyped.completion()(complete)


def main() -> None:
    """Serve until the process is ended."""
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "agent":
        model = ScriptedModel(lambda request: "Hello.")
        agent = Agent(model=model, name="desk", instructions="You answer.")
        app: Any = http_app(serve_mcp(agent, decide_tool=True))
    else:
        app = fixture().streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
