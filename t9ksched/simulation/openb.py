"""Files of nodes and pods in the form of the openb trace (Alibaba's GPU cluster trace of 2023), for `simulate fill`.

Nodes have `sn,cpu_milli,memory_mib,gpu,model`; pods `cpu_milli,memory_mib,num_gpu,gpu_milli` and, where they may run on
some models only, `gpu_spec` with these separated by `|`. A pod with one GPU asks for `gpu_milli` thousandths of
it; one with several asks for whole ones.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from t9ksched.model.card_size import CORES
from t9ksched.model.cards import MOST_INDEXED
from t9ksched.model.errors import Invalid
from t9ksched.model.whole import whole_number

_MOST_ROWS: Final = 1_000_000
_LARGEST: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class FillNode:
    """A node: cores in thousandths, memory in MiB, cards and their model."""

    name: str
    cpu: int
    memory: int
    cards: int
    model: str


@dataclass(frozen=True, slots=True)
class FillPod:
    """What a pod asks for: `each` thousandths of each of `cards`, of one of these models (of any where there is none).

    Pods that ask for the same are one value.
    """

    cpu: int
    memory: int
    cards: int
    each: int
    models: tuple[str, ...] = ()

    @property
    def demand(self) -> int:
        """Thousandths of cards."""
        return self.cards * self.each


def read_nodes(lines: Iterable[str]) -> list[FillNode]:
    """The nodes of a file.

    Raises:
        Invalid: a line is not in the form; the path is the number of the line and the field.
    """
    found: dict[str, FillNode] = {}
    for line, row in _rows(lines, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        cards = _count(row, "gpu", line, MOST_INDEXED)
        name = row["sn"] or ""
        if not name or name in found:
            raise Invalid.at(f"line {line}, sn", f"{name!r}: each node needs a name of its own")
        cpu, memory = _count(row, "cpu_milli", line), _count(row, "memory_mib", line)
        found[name] = FillNode(name, cpu, memory, cards, row["model"] or "")
    if not any(node.cards for node in found.values()):
        raise Invalid.at("nodes", "none of the nodes has a card")
    return list(found.values())


def read_pods(lines: Iterable[str]) -> list[FillPod]:
    """The pods of a file, one value for all that are alike.

    Raises:
        Invalid: a line is not in the form; the path is the number of the line and the field.
    """
    known: dict[FillPod, FillPod] = {}
    found = []
    for line, row in _rows(lines, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        cards = _count(row, "num_gpu", line, MOST_INDEXED)
        each = _count(row, "gpu_milli", line, CORES) if cards else 0
        if cards and not each:
            raise Invalid.at(f"line {line}, gpu_milli", "a pod with GPUs needs thousandths of each, from 1 to 1000")
        if cards > 1 and each < CORES:
            raise Invalid.at(f"line {line}, gpu_milli", "a pod with several GPUs needs whole ones: 1000")
        models = tuple(sorted({part.strip() for part in (row.get("gpu_spec") or "").split("|")} - {""}))
        pod = FillPod(_count(row, "cpu_milli", line), _count(row, "memory_mib", line), cards, each, models)
        found.append(known.setdefault(pod, pod))
    if not any(pod.cards for pod in found):
        raise Invalid.at("pods", "none of the pods asks for a card")
    return found


def _rows(lines: Iterable[str], wanted: Iterable[str]) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    reader = csv.DictReader(lines, strict=True)
    try:
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            raise Invalid.at("line 1", f"the header lacks {', '.join(missing)}")
        for count, row in enumerate(reader):
            if count >= _MOST_ROWS:
                raise Invalid.at(f"line {reader.line_num}", f"at most {_MOST_ROWS} lines")
            yield reader.line_num, row
    except csv.Error as error:
        raise Invalid.at(f"line {reader.reader.line_num}", f"it is no CSV: {error}") from error


def _count(row: Mapping[str, str | None], name: str, line: int, most: int = _LARGEST) -> int:
    text = (row.get(name) or "").strip()
    found = whole_number(text)
    if found is None or found > most:
        raise Invalid.at(f"line {line}, {name}", f"{text!r} must be a whole number from 0 to {most}")
    return found
