"""Times that objects carry: what cannot be read is refused in words of ours."""

import pytest

from t9ksched.devcluster.apiserver.schema import parse_time


@pytest.mark.parametrize(
    "text", ["soon", "2030-01-31T20:00:00+25:00", "2030-02-30T20:00:00Z", "0001-01-01T00:00:00+08:00"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not an RFC 3339 time"):
        parse_time(text)
