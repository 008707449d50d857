"""Endpoints for agentkit itself: all that `ChatRequest` can say, and tokens in, tokens out.

`agentkit_runtime.wire_chat` has the documents.
"""

from agentkit_runtime.api.native.routes import NativeRoutes

__all__ = ["NativeRoutes"]
