"""`POST /v1/completions`: prompts without a chat template.

request  pydantic model of the body
prompts  texts and token ids -> the ids of each prompt
encode   `ChatEvent`s -> completion objects and chunks
routes   the endpoints
"""
