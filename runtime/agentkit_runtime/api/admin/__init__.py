"""What operators see and do, and what tenants do with their own prefixes.

routes   `/admin/v1`: tree, sessions, pins, published prefixes, pruning, draining; admin role
own      `/v1/agentkit`: pre-warm, pin, prune, hint, explain for one's own tenant; user role
events   KV events as a stream
state    the server in one document; `sampler`: what it did second by second
parts    what the admin API steers besides the engine
bodies   what is asked, as pydantic models; `decode` turns it into what the engine is asked
wire     what is answered, as TypedDicts; `show` makes it
actions  what both groups of endpoints do
"""

from agentkit_runtime.api.admin.own import own_routes
from agentkit_runtime.api.admin.parts import AdminParts
from agentkit_runtime.api.admin.routes import admin_routes
from agentkit_runtime.api.admin.sampler import Sampler

__all__ = ["AdminParts", "Sampler", "admin_routes", "own_routes"]
