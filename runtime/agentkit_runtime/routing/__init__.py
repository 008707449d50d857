"""What routers in front of several servers want to know.

wire       KV events in the form that routers of vLLM's ecosystem read
options    where, as one value
publisher  sends them over ZeroMQ, and again to whoever missed some
worker     what routers ask a worker about itself over HTTP
backlog    what is kept for those; `endpoints`: addresses

A router that hashes sessions needs none of this: it only needs the HTTP endpoints.
"""
