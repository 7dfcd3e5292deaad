"""How a page of metrics is written, for all processes that serve one: families, their heads, their samples.

Two formats are written: the text format 0.0.4 of Prometheus and OpenMetrics 1.0, which names a counter without its
`_total` and ends with `# EOF`. Each family has a bound on its samples; what is beyond it is counted, not written.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal

import msgspec

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
MOST_SERIES: Final = 10_000
"""The samples of a family that says nothing else."""
Sample = tuple[tuple[str, ...], int | str]
"""The values of the labels, in their order, and the amount."""


class Family(msgspec.Struct, frozen=True):
    """One family: its name as samples carry it (a counter's ends in `_total`), type, help text and label names.

    `buckets` are the upper bounds of a histogram, without the last, infinite one. `most` bounds the samples, of a meter
    the sets of label values; None where the cluster alone does.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    most: int | None = MOST_SERIES

    def head(self, openmetrics: bool) -> list[str]:
        """The lines before its samples."""
        name = self.name.removesuffix("_total") if openmetrics else self.name
        return [f"# HELP {name} {escaped(self.help)}", f"# TYPE {name} {self.kind}"]

    def sample(self, values: tuple[str, ...], amount: int | str) -> str:
        """The line of one sample; `values` are those of the labels, in their order."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
        return line(self.name, zip(self.labels, values, strict=True), amount)

    def page(self, samples: Iterable[Sample], cut: Counter[str]) -> Iterator[str]:
        """The lines of its samples, as many as it may have; `cut` counts by family those that are left out."""
        found = iter(samples)
        for values, amount in islice(found, self.most):
            yield self.sample(values, amount)
        if left := sum(1 for _ in found):
            cut[self.name] += left


def line(name: str, labels: Iterable[tuple[str, str]], amount: int | str) -> str:
    """One sample."""
    pairs = ",".join(f'{label}="{escaped(value, quoted=True)}"' for label, value in labels)
    return f"{name}{{{pairs}}} {amount}" if pairs else f"{name} {amount}"


def escaped(text: str, quoted: bool = False) -> str:
    """A help text, or with `quoted` the value of a label, as both formats write it."""
    found = text.replace("\\", "\\\\").replace("\n", "\\n")
    return found.replace('"', '\\"') if quoted else found


def page(lines: Iterable[str], openmetrics: bool) -> bytes:
    """A whole page of these lines."""
    return "\n".join([*lines, "# EOF", ""] if openmetrics else [*lines, ""]).encode()


def negotiated(accept: str) -> bool:
    """Whether a scraper with this Accept header takes OpenMetrics."""
    return any(one.strip().startswith("application/openmetrics-text") for one in accept.split(","))


def table(families: Iterable[Family]) -> str:
    """The families as the rows of a table in Markdown."""

    def rows() -> Iterator[str]:
        for family in families:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            most = "nodes" if family.most is None else f"{family.most:,}" if family.labels else "1"
            yield f"| `{family.name}` | {family.kind} | {labels} | {most} | {family.help} |\n"

    return "| family | type | labels | at most | |\n| --- | --- | --- | --- | --- |\n" + "".join(rows())
