"""Label and field selectors of query strings."""

import pytest

from t9ksched.devcluster.apiserver import selectors
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS
from t9ksched.devcluster.apiserver.status import StatusError

OBJECT = {"metadata": {"name": "n", "namespace": "ns", "labels": {"env": "prod", "tier": "2", "empty": ""}}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("env=prod", True),
        ("env==prod", True),
        ("env=dev", False),
        ("env!=dev", True),
        ("absent!=dev", True),
        ("env in (dev, prod)", True),
        ("env in (dev)", False),
        ("env notin (dev)", True),
        ("absent notin (dev)", True),
        ("env", True),
        ("absent", False),
        ("!absent", True),
        ("!env", False),
        ("empty=", True),
        ("env=", False),
        ("tier>1", True),
        ("tier<2", False),
        ("env>1", False),
        ("env=prod,tier=2", True),
        ("env=prod,tier=3", False),
        ("env in (prod),!absent,tier>1", True),
    ],
)
def test_labels(text: str, matches: bool) -> None:
    predicate = selectors.labels(text)
    assert predicate is not None
    assert predicate(OBJECT) is matches


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_selector_matches_everything(text: str) -> None:
    assert selectors.labels(text) is None
    assert selectors.fields("", METADATA_FIELDS) is None


@pytest.mark.parametrize(
    "text", ["a=(b", "a in b", "=x", "a=b c", "tier>x", ",,", "a b", "a in (b", "bad key!=x", "a=-"]
)
def test_bad_labels(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        selectors.labels(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=n", True),
        ("metadata.name==n", True),
        ("metadata.name!=n", False),
        ("metadata.name=n,metadata.namespace=ns", True),
        ("metadata.name=n,metadata.namespace!=ns", False),
    ],
)
def test_fields(text: str, matches: bool) -> None:
    predicate = selectors.fields(text, METADATA_FIELDS)
    assert predicate is not None
    assert predicate(OBJECT) is matches


@pytest.mark.parametrize("text", ["spec.bogus=x", "nonsense", "metadata.name in (n)"])
def test_bad_fields(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        selectors.fields(text, METADATA_FIELDS)
    assert caught.value.code == 400
