"""HTTP in front of one `ChatService`.

app       the FastAPI application: routes common to all dialects, health
body_limit  refuses bodies that are too large
sse       server-sent events written by hand; stops work the moment the client is gone
openai/   the OpenAI dialect: request models, decode to `ChatRequest`, encode `ChatEvent`s, errors

A dialect knows the wire; the service knows tokens; neither knows the other's half.
"""

from agentkit_runtime.api.app import create_app

__all__ = ["create_app"]
