"""The OpenAI dialect: `POST /v1/chat/completions` and `GET /v1/models`.

request   pydantic models of the body; unknown fields are kept so that they can be judged
decode    body -> `ChatRequest`, or an error that names the field
encode    `ChatEvent`s -> completion object, or -> stream chunks; one accumulator for both
errors    every failure in the shape {"error": {message, type, param, code}}
routes    the endpoints
"""
