"""The official client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.errors import ConfigurationError
from agentkit.models.hosted.openai_sdk import client_class

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def new_client(label: str, key_variable: str, base_url: str | None = None) -> AsyncOpenAI:
    """Return the official client, which reads its key from the environment.

    Raises:
        MissingExtra: the SDK is not installed.
        ConfigurationError: there is no key.
    """
    made = client_class(label)
    from openai import OpenAIError

    try:
        return made(base_url=base_url, max_retries=0)
    except OpenAIError as error:
        raise ConfigurationError(
            f"{label} has no key: set {key_variable}, or pass client=AsyncOpenAI(api_key=...)"
        ) from error
