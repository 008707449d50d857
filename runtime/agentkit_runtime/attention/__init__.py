"""Attention over extents of the KV pool.

plan.py   which rows read which extents: an extent that several lanes share is read once
merge.py  combining partial attention results by their log-sum-exp
sdpa.py   the torch backend: CPU flash kernel, and a plain reference for everything else
base.py   the protocol that a backend implements, and the batch metadata passed to it
"""
