"""Counters and histograms that are counted where things happen, so that reading a page costs nothing for each pod.

They are those of prometheus-client, without its global registry: several services may run in one process. Of each at
most `Family.most` sets of label values are kept apart; further ones are counted together as `OTHER`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import prometheus_client

from t9ksched.serving.exposition import Family, line

OTHER: Final = "(other)"
"""The first label's value where a family has as many sets of values as it may."""
CREATED: Final = "_created"
"""Ending of the samples that say since when a library's object counts; they are left out."""


class Meter:
    """One counter or histogram of a family."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.cut = 0
        """How often something was counted as `OTHER`."""
        self._known: dict[tuple[str, ...], Any] = {}
        """What counts for each set of values: the library looks it up by a lock and a tuple of texts each time."""
        self._counter: prometheus_client.Counter | None = None
        self._histogram: prometheus_client.Histogram | None = None
        if family.kind == "counter":
            self._counter = prometheus_client.Counter(family.name, family.help, family.labels, registry=None)
        else:
            self._histogram = prometheus_client.Histogram(
                family.name, family.help, family.labels, registry=None, buckets=family.buckets
            )

    def add(self, *values: str, amount: float = 1) -> None:
        """Count something with these values of the labels."""
        assert self._counter is not None, f"{self.family.name} is a histogram"
        (self._of(values) if values else self._counter).inc(amount)

    def observe(self, seconds: float, *values: str) -> None:
        """Something with these values of the labels took so long."""
        assert self._histogram is not None, f"{self.family.name} is a counter"
        (self._of(values) if values else self._histogram).observe(seconds)

    def expect(self, values: Iterable[tuple[str, ...]]) -> "Meter":
        """Have samples of these values before anything is counted, as many as there may be: a rate sees nothing of a
        series that begins with its first event.
        """
        for each in values:
            if each in self._known or (self.family.most is not None and len(self._known) >= self.family.most):
                continue
            self._of(each)
        return self

    def lines(self) -> Iterator[str]:
        """Its samples."""
        for metric in (self._counter or self._histogram).collect():  # type: ignore[union-attr]
            for sample in metric.samples:
                if not sample.name.endswith(CREATED):
                    yield line(sample.name, sample.labels.items(), _written(sample.value))

    def _of(self, values: tuple[str, ...]) -> Any:
        known = self._known.get(values)
        if known is not None:
            return known
        metric: Any = self._counter or self._histogram
        if self.family.most is not None and len(self._known) >= self.family.most:
            self.cut += 1
            return metric.labels(OTHER, *values[1:])
        known = self._known[values] = metric.labels(*values)
        return known


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def cut_by(meters: Sequence[Meter]) -> Counter[str]:
    """How often each of them counted something as `OTHER`, by the name of the family."""
    return Counter({meter.family.name: meter.cut for meter in meters if meter.cut})
