"""The Responses API: `POST /v1/responses`, and what was stored of earlier ones.

request   pydantic models of the body
tools     tools, namespaces and hosted ones -> functions; what their calls are told as
items     input items -> `ChatMessage`s
decode    body and what it continues -> `ChatRequest`
echo      the parts of a response that repeat the request
events    the events of a stream, as they are numbered
output    `ChatEvent`s -> output items, and the events of a stream on the way
calls     calls among the items, while they grow
thinking  thinking in the form in which clients carry it
usage     counts and log-probabilities
store     finished responses with their token ids, bounded, by tenant
running   a response that is being generated; background: one that goes on without its client
routes    the endpoints that make responses; kept: those of responses that are there
"""
