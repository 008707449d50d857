"""HTTP in front of one `ChatService`.

app        the FastAPI application: middleware, groups of endpoints, failures, health
site       what all endpoints of a server share
caller     who sends a request: authentication and roles
labels     session, tags, priority and deadline from headers
answering  one way from a request to its events: gate, service, watchers; asked: what these see
answer     the answers to one request; standing: whether keys still hold; watches: who looks on
turns      how many requests of a tenant are worked on in threads at a time
estimate   what a request may cost, before it is tokenised
failure    `ApiError`, before it has a dialect's shape; dialect: which shape at which path
large      bodies that are decoded in threads; patient_json: and let others have the interpreter
body_limit bodies that are too large or do not come; connections: those held open for nothing
health     probes; starting: what is served before the model is; draining: the end of a server
sse        server-sent events written by hand; stops work the moment the client is gone
openai/    the OpenAI dialect: request models, decode to `ChatRequest`, encode `ChatEvent`s, errors

A dialect knows the wire; the service knows tokens; neither knows the other's half.
"""

from agentkit_runtime.api.app import create_app

__all__ = ["create_app"]
