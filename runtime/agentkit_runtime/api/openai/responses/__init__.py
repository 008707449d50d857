"""The Responses API: `POST /v1/responses`, and what was stored of earlier ones.

request   pydantic models of the body
items     input items -> `ChatMessage`s
decode    body and what it continues -> `ChatRequest`
echo      the parts of a response that repeat the request
output    `ChatEvent`s -> output items, and the events of a stream on the way
store     finished responses with their token ids, bounded, by tenant
routes    the endpoints
"""
