"""The official client, pointed at another server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agentkit.caching.policy import Provider
from agentkit.errors import ConfigurationError
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.openai_sdk import client_class

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def new_client(label: str, profile: Profile, base_url: str | None) -> AsyncOpenAI:
    """Return the official client for a server of this kind, by default at the profile's address.

    Raises:
        MissingExtra: the SDK is not installed.
        ConfigurationError: there is no key, or no base URL.
    """
    made = client_class(label)
    key = _key(label, profile)
    base_url = base_url or profile.base_url
    if base_url is None and profile.is_self_hosted:
        raise ConfigurationError(f"{label} has no address; pass base_url='http://host:port/v1'")
    client = made(api_key=key, base_url=base_url, max_retries=0)
    if profile.provider is not Provider.OPENAI:
        # The client reads these from the environment; they are OpenAI's business only.
        client.organization = client.project = None
    return client


def _key(label: str, profile: Profile) -> str:
    variable = profile.key_variable
    if variable is None:
        return "none"  # such servers ask for no key, but the client does
    key = os.environ.get(variable)
    if not key:
        raise ConfigurationError(
            f"{label} has no key: set {variable}, or pass client=AsyncOpenAI(...)"
        )
    return key
