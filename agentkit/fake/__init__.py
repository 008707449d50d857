"""A fake provider: the APIs of Anthropic, OpenAI, DeepSeek and Gemini over simulated caches.

The official SDKs talk to it, over a socket (`agentkit fake-provider`) or in process, and get the
usage, the bill and the refusals that the provider would give. No model, no network, no key.

provider.py  read first: FakeProvider; app.py: the routes (incoming.py: key and body);
             exchange.py: one request's life
reply.py     what the fake model says; sample.py: values that fit a schema
pieces.py    from JSON to the blocks that caches know; fields.py: reading JSON; api.py: the seam
anthropic/ openai/ gemini/    how each API is read and written
ledger.py    what was served; transport.py: clients in the same process

    fake = FakeProvider(time=VirtualTime())
    client = AsyncAnthropic(
        api_key="any",
        base_url="http://fake",
        http_client=httpx2.AsyncClient(transport=fake.transport()),
    )
"""

from __future__ import annotations

from agentkit.fake.ledger import Record
from agentkit.fake.provider import Caches, FakeProvider, create_app, tenant_of_key
from agentkit.fake.reply import Ask, Call, Failure, Reply, Respond, obey

__all__ = [
    "Ask",
    "Caches",
    "Call",
    "Failure",
    "FakeProvider",
    "Record",
    "Reply",
    "Respond",
    "create_app",
    "obey",
    "tenant_of_key",
]
