"""KV state of all sequences: one radix tree over token ids, one pool of slots.

The tree decides and owns no slot list; the cache executes. Only `pool` and `formats` know torch.

tokens       token runs as bytes, the only form in which prefixes are compared
extent       contiguous ranges of slots
slots        which slots are free
pool         the tensors behind the slots, in a `format`
tree         the radix tree: who knows which prefix; over `node` and `paths`, with its `outcome`s
eviction     the queue of unlocked leaves
policy       in which order they leave
leasing      what running sequences do: acquire, grow, commit, release; `lease` is what they hold
cache        all of that, and what is done to the cache as a whole
pins         prefixes that stay; `timers` end them
public       prefixes that the operator publishes, and the private roots behind them
labels       whose sequences ended where; `hints` about them
prune        forgetting on purpose
blocks       names of blocks of 16 tokens, for `events` and `tiers`
restoring    bringing blocks back from slower tiers; `restore` is one that is under way
view         what is in the tree, for people, in bounded time; `branch`: what they then name,
             both by `hottest`, which looks at what was used last
walk         how far a prompt is cached, and where it parts from what is
integrity    checks I1-I8 over all of it
namespace    which root a caller may read and write; `scope`: on whose behalf
"""
