"""Which internet addresses are public: what a fetch may reach without being told to.

The ranges are listed here (the special-purpose registries of IANA, and what clouds put their
metadata on), because Python's own answer differs between its patch releases.
"""

from __future__ import annotations

import ipaddress
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_NOT_PUBLIC_4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "metadata of a cloud"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for measurements"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "this machine"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "private"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a relay"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_NOBODYS = "240.0.0.1"
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


def why_not_public(address: str) -> str | None:
    """What kind of address this is when it is not a public one. None: it is public.

    An IPv6 address that carries an IPv4 address is as public as that one.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unreadable"
    if isinstance(parsed, IPv4Address):
        return _kind_4(parsed)
    if parsed.scope_id is not None:
        return "bound to an interface"
    return _kind_6(parsed)


def is_of_this_machine(address: str) -> bool:
    """Whether an interface of this machine has this address, public or not.

    What listens on all interfaces is reached by it from here, also where a firewall keeps others
    out. Where the system lets a socket have any address there is no telling.
    """
    return _can_be_ours(address) and not _can_be_ours(_NOBODYS)


def _can_be_ours(address: str) -> bool:
    kind = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(kind, socket.SOCK_DGRAM) as asking:
            asking.bind((address, 0))
    except OSError:
        return False
    return True


def _kind_4(address: IPv4Address) -> str | None:
    return next((kind for network, kind in _NOT_PUBLIC_4 if address in network), None)


def _kind_6(address: IPv6Address) -> str | None:
    for network, name in _NOT_PUBLIC_6:
        if address in network:
            return name
    embedded = IPv4Address(address.packed[12:])
    if any(address in network for network in (_MAPPED, _TRANSLATED, _COMPATIBLE)):
        return _kind_4(embedded)
    if address.packed[8:12] in _ISATAP and (kind := _kind_4(embedded)):
        return kind
    return None if address in _PUBLIC_6 else "reserved"
