"""Words of servers are untrusted: what a model reads of them, and who has looked at it.

setting.py      Trust: how far a server is trusted
judging.py      a listing, as far as it is trusted
lock.py         McpLock: the file of approved tools; diff.py: what differs from it
scan.py         flags of a tool and of any text: hidden.py unseen characters, phrases.py words as
                data, encoded.py texts within texts
look_alikes.py  names of different servers that can be taken for each other, and texts of one that
                speak of another's tools; confusables.py: letters of one look
flag.py         Flag: one finding; how text is shown so that nothing in it is unseen

A flag is no proof. It says where a person should look before a model reads it.
"""

from __future__ import annotations

from agentkit.toolset.mcp.trust.flag import Flag, FlagKind, Severity, visible
from agentkit.toolset.mcp.trust.setting import Trust

__all__ = ["Flag", "FlagKind", "Severity", "Trust", "visible"]
