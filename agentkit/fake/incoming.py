"""What every API takes from a request before it reads its own fields: key, body, whose it is."""

from __future__ import annotations

import json

from starlette.requests import Request

from agentkit.caching.policy import Provider, plain_name
from agentkit.fake.fields import JsonObject, Problem


def key_of(request: Request) -> str:
    """Return the API key, wherever the API has it; empty if there is none."""
    headers = request.headers
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    given = (headers.get("x-api-key"), headers.get("x-goog-api-key"), bearer)
    return next((key for key in given if key), request.query_params.get("key", ""))


def body_of(data: bytes) -> JsonObject:
    """Return the body.

    Raises:
        Problem: it is no JSON object.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Problem(f"the body is no valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise Problem("the body is no JSON object")
    return value


def chat_provider(data: bytes) -> Provider:
    """Whose Chat API it is: DeepSeek's, OpenAI's, or a gateway's to Claude."""
    try:
        model = str(body_of(data).get("model", ""))
    except Problem:
        return Provider.OPENAI
    name = plain_name(model)
    if name.startswith("deepseek"):
        return Provider.DEEPSEEK
    return Provider.ANTHROPIC if name.startswith("claude") else Provider.OPENAI
