"""Which network addresses the service connects to because a user named them: public ones alone.

Everything else (private networks, this machine, link-local addresses with the metadata of clouds, and addresses that
lead to such by a translation) may be reached from where the service runs and not from where the user is. An
administrator can name networks that are allowed all the same.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Ip = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
"""NAT64 (RFC 6052, RFC 8215) and IPv4-compatible addresses: the last 32 bits are an IPv4 address."""
_HOST_OF_CLOUD: Final = frozenset({IPv4Address("168.63.129.16")})
"""A public address that Azure answers on each virtual machine."""


def permitted(address: str, networks: Iterable[Network] = ()) -> bool:
    """Whether a connection to this address is allowed; `networks` are those allowed beyond public ones."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    several = (found, *_within(found))
    if any(found.version == network.version and found in network for network in networks):
        return True
    return all(_public(one) for one in several)


def parse_network(text: str) -> Network:
    """A network such as `10.0.0.0/8`, or one address.

    Raises:
        ValueError: it is none, or has bits set behind its prefix.
    """
    return ip_network(text)


def _public(address: Ip) -> bool:
    odd = address.is_multicast or address.is_reserved or address.is_unspecified or address in _HOST_OF_CLOUD
    scoped = isinstance(address, IPv6Address) and address.scope_id is not None
    translated = isinstance(address, IPv6Address) and (address.sixtofour or _embedded(address)) is not None
    # Addresses of NAT64 are reserved and those of 6to4 private in some releases of Python, and public in others; what
    # they lead to is judged beside.
    return not scoped and (translated or (address.is_global and not odd))


def _within(address: Ip) -> list[Ip]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return []
    found: list[Ip] = []
    if address.teredo is not None:
        found += address.teredo
    found += [one for one in (address.sixtofour, _embedded(address)) if one is not None]
    return found


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
