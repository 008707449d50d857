"""A server behind OAuth: the SDK's client-credentials provider as `auth`, all on this machine."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentkit.toolset import McpConnectError, McpServer
from tests.bench.mcp_conformance_auth import Kept

pytestmark = pytest.mark.timeout(60)

SECRET = "sesame-4711"


class Login:
    """A small authorization server; also what the MCP server asks about tokens."""

    def __init__(self) -> None:
        self.n_given = 0
        self.valid: set[str] = set()

    def app(self) -> Starlette:
        metadata = "/.well-known/oauth-authorization-server"
        return Starlette(
            routes=[Route(metadata, self.metadata), Route("/token", self.token, methods=["POST"])]
        )

    async def metadata(self, request: Request) -> JSONResponse:
        issuer = str(request.base_url).rstrip("/")
        return JSONResponse(
            {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    async def token(self, request: Request) -> JSONResponse:
        given = b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        if given != f"agent:{SECRET}":
            return JSONResponse({"error": "invalid_client"}, 401)
        self.n_given += 1
        token = f"token-{self.n_given}"
        self.valid.add(token)
        return JSONResponse({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in self.valid:
            return None
        return AccessToken(token=token, client_id="agent", scopes=[])


def guarded(login: Login, issuer: str, address: str) -> MCPServer:
    settings: dict[str, Any] = {
        "issuer_url": issuer,
        "resource_server_url": f"{address}/mcp",
        "validate_token_resource": False,
    }
    server = MCPServer("guarded", auth=AuthSettings(**settings), token_verifier=login)

    @server.tool()
    async def echo(text: str) -> str:
        return text

    return server


def provider(address: str, issuer: str, secret: str) -> ClientCredentialsOAuthProvider:
    return ClientCredentialsOAuthProvider(
        server_url=f"{address}/mcp",
        storage=Kept(),
        client_id="agent",
        client_secret=secret,
        issuer=issuer,
    )


async def test_a_server_behind_oauth_is_reached_and_a_lost_token_is_fetched_anew(serve):
    login = Login()
    async with serve(None) as free:
        port = urlsplit(free).port
    async with serve(login.app()) as issuer, asyncio.timeout(30):
        app = guarded(login, issuer, f"http://127.0.0.1:{port}").streamable_http_app()
        async with serve(app, port) as address:
            auth = provider(address, issuer, SECRET)
            server = McpServer(alias="far", url=f"{address}/mcp", auth=auth)
            async with server.connect() as connection:
                assert (await connection.call("echo", {"text": "in"})).content == "in"
                assert login.n_given == 1
                login.valid.clear()
                assert (await connection.call("echo", {"text": "again"})).content == "again"
                assert login.n_given == 2


async def test_without_credentials_or_with_wrong_ones_it_is_said_and_nothing_secret_is(serve):
    login = Login()
    async with serve(None) as free:
        port = urlsplit(free).port
    async with serve(login.app()) as issuer, asyncio.timeout(30):
        app = guarded(login, issuer, f"http://127.0.0.1:{port}").streamable_http_app()
        async with serve(app, port) as address:
            url = f"{address}/mcp"
            with pytest.raises(McpConnectError, match="answered with HTTP 401; set headers"):
                await McpServer(alias="far", url=url).connect().open()
            wrong = provider(address, issuer, "wrong-" + SECRET)
            with pytest.raises(McpConnectError) as caught:
                await McpServer(alias="far", url=url, auth=wrong).connect().open()
            assert "could not be asked (OAuthTokenError" in str(caught.value)
            assert SECRET not in str(caught.value)
