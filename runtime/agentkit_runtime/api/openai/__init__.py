"""The OpenAI dialect: Chat Completions, Completions, Responses, Models.

request      pydantic models of a chat's body; unknown fields are kept so that they can be judged
messages     messages of a body -> `ChatMessage`s
tools        tools and the choice of one -> functions that a template can show
custom       tools whose calls are free text, as functions; calls: what is told of calls
fields       where the request has what is refused of a tool; unserved: what is told, not done
options      what all three APIs have: tiers, cache keys, efforts, biases; sampling: the rest
decode       body -> `ChatRequest`, or an error that names the field
encode       `ChatEvent`s -> completion object, or -> stream chunks; one accumulator for both
logprobs, usage, wire, documented   parts of what is answered, its shapes, its description
errors       every failure in the shape {"error": {message, type, param, code}}
routes       the endpoints of chats and models
completions/ prompts without a template; responses/ the Responses API
"""
