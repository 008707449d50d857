"""The Anthropic dialect: `POST /v1/messages`, `.../count_tokens`, and its own `GET /v1/models`.

request   pydantic models of the bodies; unknown fields are kept so that they can be judged
blocks    content blocks -> messages; order: rules for calls and results; tools, thinking, session
marked    `cache_control`: which parts are marked; `marks` pins them; usage: what is counted as what
decode    body -> `ChatRequest` and its marks, or an error that names the field
encode    `ChatEvent`s -> events of a stream; the whole message is a fold over them
telling   one answer on its way: usage first, pings while the prompt is computed
errors    every failure in the shape {"type": "error", "error": {type, message}, request_id}
routes    the endpoints
"""
