"""Deciding what runs in each step. No torch here: the scheduler knows sequences, not tensors.

options.py    the bounds, and what each of them does
sequence.py   one generation's state: tokens, how many have KV, its lease on the cache
scheduler.py  plan a step under a token budget, and commit what it computed
admission.py  what a step has left for prompts: who goes on, who starts
step.py       the step that is being planned
turns.py      in which order prompts get what a step has left: old, class, tenant, rank
waiting.py    the queue behind it
shares.py     which tenant has had least
followers.py  cold shared prefixes are computed once
lanes.py      who runs: takes slots, gives them back, lets others leave
victims.py    who leaves when slots run out
loading.py    prefixes that come from host memory or disk
stats.py      what it tells about itself
"""
