"""Counters and histograms that are counted where things happen, so that reading a page costs nothing for each pod.

Several are counted for each pod that is bound, by one thread: a number is added to, and nothing else. Of each at most
`Family.most` sets of label values are kept apart; further ones are counted together as `OTHER`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from t9ksched.serving.exposition import Family, line

OTHER: Final = "(other)"
"""The first label's value where a family has as many sets of values as it may."""
Values = tuple[str, ...]
"""One value for each label, in their order."""


class Meter:
    """One counter or histogram of a family."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.cut = 0
        """How often something was counted as `OTHER`."""
        self._counted: dict[Values, list[float]] = {}
        """For each set of values the amount of a counter, or of a histogram how many were in each bucket, how many
        were beyond all of them, and the sum.
        """
        self._numbers = 1 if family.kind == "counter" else len(family.buckets) + 2
        if not family.labels:
            self._of(())

    def add(self, *values: str, amount: float = 1) -> None:
        """Count something with these values of the labels."""
        assert self.family.kind == "counter", f"{self.family.name} is a histogram"
        (self._counted.get(values) or self._of(values))[0] += amount

    def observe(self, seconds: float, *values: str) -> None:
        """Something with these values of the labels took so long."""
        assert self.family.kind == "histogram", f"{self.family.name} is a counter"
        counted = self._counted.get(values) or self._of(values)
        counted[bisect_left(self.family.buckets, seconds)] += 1
        counted[-1] += seconds

    def expect(self, values: Iterable[Values]) -> "Meter":
        """Have samples of these values before anything is counted, as many as there may be: a rate sees nothing of a
        series that begins with its first event.
        """
        for each in values:
            if each not in self._counted and not self._full:
                self._of(each)
        return self

    def lines(self) -> Iterator[str]:
        """Its samples."""
        name = self.family.name
        for values, counted in self._counted.items():
            labels = list(zip(self.family.labels, values, strict=True))
            if self.family.kind == "counter":
                yield line(name, labels, _written(counted[0]))
                continue
            total = 0.0
            for bound, count in zip((*self.family.buckets, None), counted, strict=False):
                total += count
                yield line(
                    f"{name}_bucket", [*labels, ("le", "+Inf" if bound is None else repr(bound))], _written(total)
                )
            yield line(f"{name}_count", labels, _written(total))
            yield line(f"{name}_sum", labels, _written(counted[-1]))

    @property
    def _full(self) -> bool:
        return self.family.most is not None and len(self._counted) >= self.family.most

    def _of(self, values: Values) -> list[float]:
        """The numbers of these values, which are new, or of `OTHER`."""
        if self._full:
            self.cut += 1
            values = (OTHER, *values[1:])
        return self._counted.setdefault(values, [0.0] * self._numbers)


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def cut_by(meters: Sequence[Meter]) -> Counter[str]:
    """How often each of them counted something as `OTHER`, by the name of the family."""
    return Counter({meter.family.name: meter.cut for meter in meters if meter.cut})
