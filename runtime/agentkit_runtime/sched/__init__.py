"""Deciding what runs in each step. No torch here: the scheduler knows sequences, not tensors.

sequence.py   one generation's state: tokens, how many have KV, its lease on the cache
policy.py     which waiting sequence goes next; cold shared prefixes are computed once
scheduler.py  plan a step under a token budget, and commit what it computed
"""
