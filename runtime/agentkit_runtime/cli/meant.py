"""What a person may have meant who named something that a server does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agentkit_runtime.spelling import or_meant

if TYPE_CHECKING:
    from agentkit_runtime.admin_client import AdminClient


@contextmanager
def nearest_pin_told(client: AdminClient, handle: str, *, of_all: bool = False) -> Iterator[None]:
    """Add the nearest pin to the failure of what is done with `handle`, where there is none."""
    from agentkit_runtime.admin_client import ServerFault

    try:
        yield
    except ServerFault as fault:
        if fault.code != "pin_not_found":
            raise
        pins = client.pins(of_all=of_all)
        named = [pin["handle"] for pin in pins if pin["name"] == handle]
        near = or_meant(handle, [pin["handle"] for pin in pins], called=named)
        raise ServerFault(f"there is no pin {handle!r}{near} `pins` lists them") from None


def nothing_of(client: AdminClient, by: str, name: str) -> str:
    """What to say where a session or a tag has nothing cached; the nearest one for operators."""
    from agentkit_runtime.admin_client import ServerFault

    known: set[str] = set()
    with suppress(ServerFault):  # a user's key may not look: then nothing is near
        for session in client.sessions():
            known.update(session["tags"] if by == "tag" else [session["session"] or ""])
    return f"nothing is cached of the {by} {name!r}{or_meant(name, known - {name, ''})}"
