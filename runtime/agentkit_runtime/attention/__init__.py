"""Attention over extents of the KV pool.

plan.py       which rows read which extents; sharing.py finds what lanes have in common
cost.py       whether sharing pays; calibrate.py measures it on the pool and kernels in use
compiled.py   what a plan means in tensors, once a step
sdpa.py       the torch backend over kernels.py (reference), cpu.py or cuda.py
merge.py      combining partial results by their log-sum-exp
flashinfer.py FlashInfer on CUDA, with the levels of cascade.py
select.py     which of them a model gets
base.py       the protocol that a backend implements, and the batch metadata passed to it
"""
