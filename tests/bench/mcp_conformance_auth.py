"""How the client under test authorizes: with the SDK's providers, and a browser that agrees."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

_CALLBACK = "http://localhost:3000/callback"
_METADATA = "https://conformance-test.local/client-metadata.json"


class Kept:
    """Tokens and registration, in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration."""
        self.client = client_info


class _Browser:
    """Follows the redirect to the authorization server, as a user who agrees."""

    def __init__(self) -> None:
        self._query: dict[str, list[str]] = {}

    async def visit(self, url: str) -> None:
        """Go where the user is sent, and keep where that leads."""
        async with httpx2.AsyncClient() as http:
            response = await http.get(url, follow_redirects=False)
        self._query = parse_qs(urlparse(response.headers["location"]).query)

    async def came_back(self) -> AuthorizationCodeResult:
        """Return the code that the authorization server gave."""
        given = {key: values[0] for key, values in self._query.items()}
        return AuthorizationCodeResult(
            code=given["code"], state=given.get("state"), iss=given.get("iss")
        )


def auth_for(scenario: str, url: str, context: dict[str, Any]) -> httpx2.Auth | None:
    """Return what authorizes the requests of a scenario; None for those without."""
    if not scenario.startswith("auth/"):
        return None
    kept = Kept()
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            url, kept, client_id=context["client_id"], client_secret=context["client_secret"]
        )
    if scenario == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_algorithm=context.get("signing_algorithm", "ES256"),
            signing_key=context["private_key_pem"],
        )
        return PrivateKeyJWTOAuthProvider(
            url,
            kept,
            client_id=context["client_id"],
            assertion_provider=signed.create_assertion_provider(),
        )
    if "client_id" in context:
        secret = context.get("client_secret")
        kept.client = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=secret,
            redirect_uris=[AnyUrl(_CALLBACK)],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )
    browser = _Browser()
    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="agentkit conformance",
            redirect_uris=[AnyUrl(_CALLBACK)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage=kept,
        redirect_handler=browser.visit,
        callback_handler=browser.came_back,
        client_metadata_url=_METADATA,
    )
