"""What a script asks for in all: its options, read and put together as Slurm does where several speak of one thing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from t9ksched.model.errors import FieldError, Invalid
from t9ksched.workloads.compose.sbatch.lines import Given
from t9ksched.workloads.compose.sbatch.words import Cards, Memory

_CARDS: Final = ("gpus-per-node", "gres", "gpus", "gpus-per-task")
_MEMORY: Final = ("mem", "mem-per-cpu", "mem-per-gpu")


class Label(NamedTuple):
    """A label of nodes."""

    key: str
    value: str


class Model(NamedTuple):
    """A word in the names of models of cards."""

    word: str


Feature = Label | Model
Features = Callable[[str], Feature | None]
"""What a feature of Slurm's nodes is here; None for one that no node has."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a translation knows besides the script.

    Attributes:
        name: of the job.
        now: with the zone of times that name none.
        environment: the caller's variables, for those that `--export` names.
        image, workdir, namespace, priority: what the command line names; empty or None for nothing.
        overridden: by options of sbatch those of ours that were given beside the script, and win.
        arguments: of the script.
    """

    name: str
    now: datetime
    environment: Mapping[str, str]
    features: Features
    image: str = ""
    workdir: str = ""
    namespace: str | None = None
    priority: int | None = None
    overridden: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What the job gets. `cpu` and `memory` are those of one pod, as `cards`; empty or 0 for nothing in particular.

    Attributes:
        values: what was read of each option, by its name.
        model: words of models that will do, joined by commas.
        places: alternatives of labels, each of which must all be there.
    """

    values: Mapping[str, Any]
    nodes: int
    tasks: int
    cpu: str
    memory: str
    cards: int
    model: str
    places: tuple[tuple[Label, ...], ...] = ()

    @property
    def tasks_here(self) -> int:
        """The tasks of one pod."""
        return -(-self.tasks // self.nodes)

    @property
    def pods(self) -> str:
        """For sentences."""
        return "its pod" if self.nodes == 1 else "each pod"


def plan(given: Mapping[str, Given], values: Mapping[str, Any], features: Features) -> Plan:
    """Everything put together; `given` and `values` have the last of equal options.

    Raises:
        Invalid: options contradict each other; paths are lines.
    """

    def fault(name: str, text: str) -> Invalid:
        return Invalid([FieldError(f"line {given[name].line}", f"{given[name].written}: {text}")])

    per_node = values.get("ntasks-per-node")
    nodes = values["nodes"][0] if "nodes" in values else -(-values.get("ntasks", 1) // (per_node or 10**9))
    tasks = values.get("ntasks") or (per_node or 1) * nodes
    if tasks < nodes:
        nodes = tasks
    here = -(-tasks // nodes)
    cards, model = 0, ""
    for name in _CARDS:
        asked: Cards | None = values.get(name)
        if asked is None:
            continue
        if name == "gpus" and asked.number % nodes:
            raise fault(name, f"{asked.number} cards cannot be divided among {nodes} nodes: write --gpus-per-node")
        cards = asked.number // nodes if name == "gpus" else asked.number * (here if name == "gpus-per-task" else 1)
        model = asked.model
        break
    if (per_card := values.get("ntasks-per-gpu")) and cards and "ntasks" not in values and not per_node:
        tasks = per_card * cards * nodes
        here = -(-tasks // nodes)
    cores = _cores(values, here, cards)
    amount: Memory | None = None
    for name in _MEMORY:
        if name not in values:
            continue
        amount = values[name]
        if amount is not None and name != "mem":
            amount = amount.times((cores or here) if name == "mem-per-cpu" else max(1, cards))
        break
    places, words = _places(values.get("constraint") or [], features)
    if words is None or (words and not cards):
        raise fault("constraint", "names models of cards beside labels, or without cards: write --gres=gpu:TYPE:N")
    return Plan(
        values,
        nodes,
        tasks,
        str(cores) if cores else "",
        str(amount) if amount else "",
        cards,
        ",".join(dict.fromkeys([*([model] if model else []), *words])),
        places,
    )


def _cores(values: Mapping[str, Any], here: int, cards: int) -> int:
    """The cores of one pod; 0 where nothing says how many."""
    if "cpus-per-task" in values:
        found = int(values["cpus-per-task"]) * here
    elif "cpus-per-gpu" in values:
        found = int(values["cpus-per-gpu"]) * max(1, cards)
    else:
        found = here if here > 1 or "ntasks" in values else 0
    return max(found, values.get("mincpus") or 0)


def _places(
    alternatives: list[list[str]], features: Features
) -> tuple[tuple[tuple[Label, ...], ...], list[str] | None]:
    """The labels of nodes and the models that features stand for; None for models that cannot be told so."""
    found = [[features(word) for word in one] for one in alternatives]
    models = [one for each in found for one in each if isinstance(one, Model)]
    labels = [tuple(one for one in each if isinstance(one, Label)) for each in found]
    if not models:
        return tuple(labels), []
    if len(found) == 1 and len(models) == 1:
        return tuple(one for one in labels if one), [models[0].word]
    if all(len(each) == 1 and isinstance(each[0], Model) for each in found):
        return (), [one.word for one in models]
    return (), None
