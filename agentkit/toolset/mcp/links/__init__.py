"""One life of a session with a server, and the transports that carry it.

link.py       McpLink: a session, and the one task that owns it; handshake.py: both eras
transport.py  what every transport is: stdio.py (process.py, wire.py, orphans.py); http.py (guard,
              http_answers, http_bodies, http_hints), sse.py, memory.py; streams.py: what these
              three share
hearing.py    announced changes, in both eras; stamp.py: what the new era wants in each request
patience.py   how long an answer may take; backoff.py: when a server is tried again
"""
