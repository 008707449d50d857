"""How many tokens fit into a memory: for planning, and for the size of the pool at start.

No torch and no model here: `plan` is arithmetic over a `ModelConfig`, `shapes` knows the configs of
some public models, and `memory` asks the machine.
"""
