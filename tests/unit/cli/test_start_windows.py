"""Start windows as options: which days a range means, also one that goes over the end of the week."""

import pytest

from t9ksched.cli.commands.queues import _window
from t9ksched.model.start_windows import DAYS, parse_start_windows


@pytest.mark.parametrize(
    ("days", "meant"),
    [
        ("Mon-Fri", ["Mon", "Tue", "Wed", "Thu", "Fri"]),
        ("Fri-Mon", ["Fri", "Sat", "Sun", "Mon"]),
        ("Sun-Sat", ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]),
        ("Sun-Mon", ["Sun", "Mon"]),
        ("Tue-Tue", ["Tue"]),
        ("Fri-Mon,Wed", ["Fri", "Sat", "Sun", "Mon", "Wed"]),
        ("Mon-Sun,Sat-Tue", list(DAYS)),
        ("Sat,Sun", ["Sat", "Sun"]),
    ],
)
def test_ranges_of_days(days: str, meant: list[str]) -> None:
    window = _window(f"{days} 20:00-06:00")
    assert window == {"from": "20:00", "to": "06:00", "days": meant}
    (read,) = parse_start_windows([window], "w")
    assert read.days == tuple(sorted(DAYS.index(day) for day in meant))


def test_what_is_no_day_is_left_to_the_server() -> None:
    assert _window("Mon-Someday,Fri 20:00-06:00")["days"] == ["Mon-Someday", "Fri"]
