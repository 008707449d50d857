"""OpenAI's client library, which is imported when a request is first sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.errors import MissingExtra

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def client_class(label: str) -> type[AsyncOpenAI]:
    """Return the official client's class.

    Raises:
        MissingExtra: the library is not installed.
    """
    try:
        from openai import AsyncOpenAI
    except ImportError as error:
        raise MissingExtra(
            f"{label} needs OpenAI's client, which is not installed ({error}); "
            'in a checkout run: pip install -c requirements.lock ".[openai]"'
        ) from error
    return AsyncOpenAI
