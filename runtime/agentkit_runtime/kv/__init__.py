"""KV state of all sequences: one radix tree over token ids, one pool of slots.

tokens     token runs as bytes, the only form in which prefixes are compared
extent     contiguous ranges of slots
slots      which slots are free (no torch)
pool       the tensors behind the slots
node, tree the radix tree: who knows which prefix; decides, owns no slot list (no torch, no pool)
cache      the only module that touches tree AND slots; hands out leases to running sequences
integrity  checks I1-I8 over all of it
namespace  which root a caller may read and write
"""
