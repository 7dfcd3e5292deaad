"""Quantities: exact, rounded up to whole units, and back in their canonical form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.model.quantity import QuantityError, from_units, is_extended, parse, to_units


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [
        ("cpu", "1", 1000),
        ("cpu", "500m", 500),
        ("cpu", "0.1", 100),
        ("cpu", "100u", 1),
        ("cpu", 2, 2000),
        ("cpu", 0.5, 500),
        ("memory", "1Gi", 2**30),
        ("memory", "1G", 10**9),
        ("memory", "1.5Ki", 1536),
        ("memory", "1e3", 1000),
        ("memory", "1E3", 1000),
        ("memory", "1E", 10**18),
        ("memory", "128974848000m", 128974848),
        ("memory", ".5Mi", 2**19),
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu", "1500m", 2),
        ("cpu", "-1", -1000),
        ("memory", "9" * 5000, 2**63 - 1),
        ("memory", "-" + "9" * 5000, 1 - 2**63),
        ("memory", "1e30", 10**30),
        ("memory", "16E", 16 * 10**18),
        ("memory", "16Ei", 2**63 - 1),
        ("memory", 10**30, 2**63 - 1),
        ("memory", "9" * 5000 + "e-999", 2**63 - 1),
        ("memory", "1." + "9" * 5000, 2),
        ("memory", "0." + "9" * 5000 + "Mi", 2**20),
        ("memory", "0." + "0" * 5000 + "1", 1),
        ("memory", "0" * 5000 + "4." + "0" * 5000, 4),
    ],
)
def test_to_units(resource: str, text: object, units: int) -> None:
    assert to_units(resource, text) == units


@pytest.mark.parametrize(
    "text",
    ["", "abc", "1 Gi", "1GiB", "--1", "1e", "0x10", "1.2.3", "Gi", "1ki", True, None, [], "١", "9" * 5000 + "x"],
)
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("memory", 3 * 2**20, "3Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_from_units(resource: str, units: int, text: str) -> None:
    assert from_units(resource, units) == text


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"]), st.integers(0, 2**60))
def test_the_canonical_text_reads_back(resource: str, units: int) -> None:
    assert to_units(resource, from_units(resource, units)) == units


def test_extended_resources_have_a_domain_that_is_not_kubernetes() -> None:
    assert is_extended("nvidia.com/gpu")
    assert not is_extended("cpu")
    assert not is_extended("kubernetes.io/batch-cpu")
