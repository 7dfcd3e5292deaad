"""The reference of metrics is current, and names every family of every page once."""

from pathlib import Path

from t9ksched.api import meters as rest
from t9ksched.cli.metricsreference import reference
from t9ksched.controller import meters as controllers
from t9ksched.scheduler.report import families
from t9ksched.scheduler.state import meters

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"


def test_the_reference_is_current() -> None:
    assert PAGE.read_text() == reference(), "run `make reference`"


def test_every_family_is_named_once() -> None:
    listed = [*families.FAMILIES, *rest.FAMILIES, *controllers.FAMILIES]
    names = [one.name for one in listed]
    assert len(names) == len(set(names))
    assert set(meters.FAMILIES) <= set(listed)
    assert all(reference().count(f"| `{name}` |") == 1 for name in names)


def test_names_follow_the_conventions() -> None:
    """As `promtool check metrics` has them: a counter ends in `_total` and nothing else does, units are base units."""
    for one in (*families.FAMILIES, *rest.FAMILIES, *controllers.FAMILIES):
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
        assert one.help.endswith("."), one.name
        assert not {"milliseconds", "minutes", "hours", "kilobytes", "percent"} & set(one.name.split("_")), one.name
        assert bool(one.buckets) == (one.kind == "histogram"), one.name
        assert one.name.islower() or one is families.NODE_REQUESTS, "an old name that is kept"
