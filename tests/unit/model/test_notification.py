"""Addresses for notifications: what is taken, what is refused, and that nothing secret is shown."""

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.model.notification import Allowed, parse_address
from t9ksched.model.outbound import parse_network

ALLOWED = Allowed((parse_network("fd00::/64"),), ("slack", "feishu"), mail=True)


@pytest.mark.parametrize(
    ("url", "kind", "shown"),
    [
        ("https://example.org/hook/s3cret?token=t0ken", "webhook", "https://example.org/…"),
        ("HTTPS://ann:s3cret@example.org:8443/t0ken#s3cret", "webhook", "https://example.org:8443/…"),
        ("http://[fd00::1]:80/", "webhook", "http://[fd00::1]:80/…"),
        ("slack://s3cret/t0ken/x/#general", "slack", "slack://…"),
        ("feishu://s3cret-t0ken", "feishu", "feishu://…"),
        ("mailto:ann@example.org", "mail", "mailto:ann@example.org"),
    ],
)
def test_what_is_taken(url: str, kind: str, shown: str) -> None:
    found = parse_address(url, ALLOWED)
    assert (found.kind, found.shown) == (kind, shown)
    assert "s3cret" not in found.shown
    assert "t0ken" not in found.shown
    assert "#s3cret" not in found.url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "printable"),
        ("https://example.org/s3cret x", "printable"),
        ("https://example.org/s3cret\n", "is taken without it"),
        ("https://exämple.org/s3cret", "printable"),
        ("https://example.org/" + "s3cret" * 400, "at most 2000"),
        ("https://", "names no host"),
        ("https:///s3cret", "names no host"),
        ("https://example.org:99999/s3cret", "is no URL"),
        ("https://example.org:0/s3cret", "names no host"),
        ("https://[s3cret/", "is no URL"),
        ("file:///etc/s3cret", "must begin with one of https, mailto, slack, feishu"),
        ("json://s3cret.internal/", "must begin with"),
        ("s3cret", "must begin with"),
        ("slack:s3cret", "write it as slack://"),
        ("slack://s3cret/t0ken/x/?template=/etc/passwd", "without a query"),
        ("slack://s3cret/t0ken/x,json://internal", "without a query"),
        ("mailto:s3cret", "one e-mail address"),
        ("mailto:ann@example.org,s3cret@example.org", "one e-mail address"),
        ("mailto:ann@example.org?cc=s3cret@example.org", "one e-mail address"),
    ],
)
def test_what_is_refused_is_not_repeated(url: str, why: str) -> None:
    if why == "is taken without it":
        assert parse_address(url).url == url.strip()
        return
    with pytest.raises(Invalid, match=why) as caught:
        parse_address(url, ALLOWED)
    assert caught.value.errors[0].path == "url"
    assert "s3cret" not in str(caught.value)


def test_mail_needs_a_server_that_an_administrator_set() -> None:
    with pytest.raises(Invalid, match="T9KSCHED_NOTIFY_MAIL"):
        parse_address("mailto:ann@example.org", Allowed(services=("slack",)))


def test_what_is_surely_not_public_is_refused_at_once() -> None:
    for url in ("https://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest"):
        with pytest.raises(Invalid, match="in no public network"):
            parse_address(url, ALLOWED)
    with pytest.raises(Invalid, match="must be https"):
        parse_address("http://example.org/")
    assert parse_address("http://intranet/", ALLOWED).shown == "http://intranet/…"
