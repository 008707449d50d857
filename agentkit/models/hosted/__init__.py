"""Models behind a provider's API.

wire.py            read first: what an adapter is: lays a request out in cache order, fills in a
                   plan, sends the bytes
model.py           HostedModel: one request from layout to verdict; keeps prefixes alive
resolve.py         model strings, one model for each in a process
begun.py           what was laid out before, so that only what is new is encoded
anthropic/         Messages          openai_responses/  Responses
openai_chat/       Chat, and servers that speak it, one profile each
gemini/            generateContent, cached-content objects
openai_common.py   what OpenAI's two APIs share
"""
