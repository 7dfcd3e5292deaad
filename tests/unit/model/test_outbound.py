"""Which addresses are public: everything that leads elsewhere is refused, however it is written."""

import pytest

from t9ksched.model.outbound import parse_network, permitted


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.1.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "2002:a00:1::",
        "2001:0:a00:1::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "localhost",
        "",
    ],
)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not permitted(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::"]
)
def test_what_is_public_is_allowed(address: str) -> None:
    assert permitted(address)


def test_networks_that_an_administrator_names_are_allowed_and_no_others() -> None:
    networks = [parse_network("10.1.0.0/16"), parse_network("fd00::/64")]
    assert permitted("10.1.2.3", networks)
    assert permitted("fd00::7", networks)
    assert not permitted("10.2.0.1", networks)
    assert not permitted("fd00:0:0:1::1", networks)
    assert permitted("8.8.8.8", networks)


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "intranet", ""])
def test_what_is_no_network_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_network(text)
