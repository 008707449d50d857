"""Why no more of a prompt was read from the cache, as callers are told.

It imports nothing: a client of a server has these types too, and no NumPy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Cause = Literal["cached", "never seen", "evicted", "diverged"]
"""Why no more of a prompt was read from the cache.

cached      all that can be read was read
evicted     it goes on as something that was cached lately and has left (evicted or pruned)
diverged    the cache goes on there, but says something else: the prompt was changed
never seen  nothing that is cached goes on there
"""


class Missed(NamedTuple):
    """What a sequence did not find in the cache when it started."""

    cause: Cause
    lost_tokens: int
    """Tokens behind the cached ones that had been cached lately, in whole blocks."""
