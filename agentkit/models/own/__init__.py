"""Our own runtime as a model, in this process (`local.py`) or over HTTP (`runtime.py`).

model.py       what both have in common
encoding.py    a request in the runtime's words, messages.py its context; what was encoded is kept
answers.py     the runtime's events in ours
reply_ids.py   the ids of answers, kept with their messages
hints.py       what both tell the runtime beside requests
client.py      HTTP to a server: connections, failures; hint_sender.py: hints beside requests
tenant_keys.py whose key goes with a request; names.py: addresses and labels
"""
