"""The switch that lets no request of a test out of the machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from agentkit.testing.wire.intercept import AsyncSend, Send


class RealCallForbidden(BaseException):
    """A test wants to call a real host.

    No `Exception`, because the vendors' clients catch all of those, wait, and try again.
    """


class Forbidding:
    """Lets requests to this machine pass, and to hosts that are allowed.

    Args:
        allowed: names of hosts; `*.example.com` allows all below it.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = tuple(allowed)

    def handle(self, request: Any, body: bytes, send: Send) -> Any:
        """See `Interceptor`."""
        self._check(request)
        return send()

    async def handle_async(self, request: Any, body: bytes, send: AsyncSend) -> Any:
        """See `Interceptor`."""
        self._check(request)
        return await send()

    def check(self, host: str, what: str) -> None:
        """Check a call of a host.

        Raises:
            RealCallForbidden: it is not this machine, and not allowed.
        """
        if _is_here(host) or any(_matches(host, each) for each in self._allowed):
            return
        raise RealCallForbidden(
            f"{what}: real calls are forbidden here; "
            "use ScriptedModel, FakeProvider().transport() or the wire_cassette fixture, or allow "
            "it: mark the test with @pytest.mark.allow_real_calls, or name the host in the ini "
            "option agentkit_allowed_hosts"
        )

    def _check(self, request: Any) -> None:
        self.check(request.url.host, f"{request.method} {request.url.copy_with(query=None)}")


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        return address.is_loopback or address.is_unspecified
    except ValueError:
        return False


def _matches(host: str, allowed: str) -> bool:
    if allowed.startswith("*."):
        return host.endswith(allowed[1:])
    return host == allowed
