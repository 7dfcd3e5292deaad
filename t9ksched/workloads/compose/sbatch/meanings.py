"""What each option of sbatch means here: how its value is read, and what it becomes, as a sentence.

Three tables: `MEANINGS` of options that become something, `UNMET` of those that have no counterpart, with why, and
`REFUSED` of those without which the job would be another than the script asks for.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from t9ksched.workloads.arrays import read_array
from t9ksched.workloads.compose.sbatch import words
from t9ksched.workloads.compose.sbatch.plan import Around, Label, Plan

_IMAGE: Final = re.compile(r"(?:docker://|dockerd://)?(?P<registry>[^#/]+)#(?P<rest>.+)")


class Meaning(NamedTuple):
    """`read` gives the value that the plan keeps, raising ValueError; `tell` says what became of it."""

    read: Callable[[str, Around], Any]
    tell: Callable[[Any, Plan, Around], str]


def image(text: str) -> str:
    """An image of pyxis (`nvcr.io#nvidia/pytorch:24.01-py3`), as Kubernetes names it."""
    if text.startswith("/") or text.endswith(".sqsh"):
        raise ValueError(f"{text!r} is a file of squashfs: name an image of a registry, or give --image")
    found = _IMAGE.fullmatch(text)
    return f"{found['registry']}/{found['rest']}" if found else text.removeprefix("docker://")


def exported(text: str, around: Around) -> dict[str, str]:
    """The variables that `--export` names."""
    found: dict[str, str] = {}
    for entry in text.split(","):
        name, given, value = entry.strip().partition("=")
        if given:
            found[name] = value
        elif name and name.upper() not in ("ALL", "NONE", "NIL"):
            if name not in around.environment:
                raise ValueError(f"{name} is not set here: write {name}=VALUE")
            found[name] = around.environment[name]
    return found


def features(text: str, around: Around) -> list[list[str]]:
    """Alternatives of features, all of which some node has."""
    found = words.features(text)
    for word in (one for each in found for one in each):
        if around.features(word) is None:
            raise ValueError(f"no node has the feature {word!r}: name a label as KEY=VALUE, or a model of cards")
    return found


def _resources(text: str, _: Around) -> words.Cards | None:
    found, others = words.gres(text)
    if others:
        raise ValueError(f"{', '.join(others)} has no counterpart: ask for it by its name in YAML")
    return found


def _plain(read: Callable[[str], Any]) -> Callable[[str, Around], Any]:
    return lambda text, _: read(text)


def _fixed(text: str) -> Callable[[Any, Plan, Around], str]:
    return lambda value, plan, around: text


def _nodes(value: tuple[int, int], plan: Plan, _: Around) -> str:
    said = "one pod" if plan.nodes == 1 else f"{plan.nodes} replicas, each on a node of its own"
    return said + (" (the least of the range)" if value[0] != value[1] else "")


def _tasks(_value: int, plan: Plan, _: Around) -> str:
    room = f" and {plan.cpu} cores" if plan.cpu else ""
    many = f"{plan.tasks_here} tasks" if plan.tasks_here > 1 else "1 task"
    return f"{many}{room} in {plan.pods}, which srun starts"


def _cpu(_value: int, plan: Plan, _: Around) -> str:
    return f"cpu {plan.cpu} in {plan.pods}"


def _memory(value: words.Memory | None, plan: Plan, _: Around) -> str:
    return f"memory {plan.memory} in {plan.pods}"


def _all_memory(text: str, _: Around) -> words.Memory:
    if text == "0":
        raise ValueError("all memory of a node has no counterpart: write how much")
    return words.memory(text)


def _cards(_value: Any, plan: Plan, _: Around) -> str:
    if not plan.cards:
        return "no cards"
    model = f" of the model {plan.model}" if plan.model else ""
    return f"{plan.cards} card{'' if plan.cards == 1 else 's'}{model} in {plan.pods}"


def _constraint(value: list[list[str]], plan: Plan, around: Around) -> str:
    return "nodes with " + ", or ".join(" and ".join(_feature(word, around) for word in each) for each in value)


def _feature(word: str, around: Around) -> str:
    found = around.features(word)
    return f"the label {found.key}={found.value}" if isinstance(found, Label) else f"cards of the model {word}"


def _exclusive(text: str, _: Around) -> bool:
    if text:
        raise ValueError(f"={text} has no counterpart: --exclusive alone keeps its nodes free of all other jobs")
    return True


def _yes(text: str, _: Around) -> bool:
    if text.lower() not in ("", "yes", "no"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text.lower() != "no"


_KILLED: Final = {
    True: "ended once what it waits for can never come",
    False: "waits on if what it waits for never comes",
}


def _array(text: str, _: Around) -> str:
    read_array(text)
    return text


def _elements(value: str, _plan: Plan, around: Around) -> str:
    array = read_array(value)
    most = f", at most {array.most} at once" if array.most else ""
    return f"{len(array.indices)} jobs, {around.name}-{array.indices[0]} to -{array.indices[-1]}{most}"


def _limit(value: str, plan: Plan, _: Around) -> str:
    return "no time limit of its own" if value == "0" else f"time limit {value}"


def _begin(value: str | None, plan: Plan, _: Around) -> str:
    return "at once" if value is None else f"no start before {value}"


def _queue(value: str, plan: Plan, _: Around) -> str:
    return f"queue {value.split(',')[0]}" + (" (the first of several)" if "," in value else "")


def _export(value: dict[str, str], plan: Plan, _: Around) -> str:
    return f"env {', '.join(value)}" if value else "no variables: those of your shell stay there (-e K=V gives some)"


def _signal(value: words.Signal, _plan: Plan, _: Around) -> str:
    to = "the script alone" if value.script else "its steps, or what else it runs where none runs"
    said = f"SIG{value.name} {words.duration(value.seconds)} before its end, to {to}"
    return f"{said} (tasks do not hear SIG{value.odd})" if value.odd else said


MEANINGS: Final[dict[str, Meaning]] = {
    "job-name": Meaning(
        _plain(str), lambda value, plan, around: f"name {around.name} (each job has a name of its own)"
    ),
    "partition": Meaning(_plain(str), _queue),
    "nodes": Meaning(_plain(words.nodes), _nodes),
    "ntasks": Meaning(_plain(words.whole), _tasks),
    "ntasks-per-node": Meaning(_plain(words.whole), _tasks),
    "ntasks-per-gpu": Meaning(_plain(words.whole), _tasks),
    "cpus-per-task": Meaning(_plain(words.whole), _cpu),
    "cpus-per-gpu": Meaning(_plain(words.whole), _cpu),
    "mincpus": Meaning(_plain(words.whole), _cpu),
    "mem": Meaning(_all_memory, _memory),
    "mem-per-cpu": Meaning(_plain(words.memory), _memory),
    "mem-per-gpu": Meaning(_plain(words.memory), _memory),
    "gpus": Meaning(_plain(words.cards), _cards),
    "gpus-per-node": Meaning(_plain(words.cards), _cards),
    "gpus-per-task": Meaning(_plain(words.cards), _cards),
    "gres": Meaning(_resources, _cards),
    "exclusive": Meaning(_exclusive, _fixed("nodes on which no pod of another job runs")),
    "constraint": Meaning(features, _constraint),
    "exclude": Meaning(_plain(words.hosts), lambda value, plan, around: f"not on {shortened(value)}"),
    "nodelist": Meaning(_plain(words.hosts), lambda value, plan, around: f"only on {shortened(value)}"),
    "time": Meaning(_plain(words.time_limit), _limit),
    "begin": Meaning(lambda text, around: words.begin(text, around.now), _begin),
    "array": Meaning(_array, _elements),
    "dependency": Meaning(_plain(words.dependency), lambda value, plan, around: f"no start before {value} is met"),
    "kill-on-invalid-dep": Meaning(_yes, lambda value, plan, around: _KILLED[value]),
    "signal": Meaning(_plain(words.signal), _signal),
    "reservation": Meaning(_plain(str), lambda value, plan, around: f"reservation {value}"),
    "chdir": Meaning(_plain(words.place), lambda value, plan, around: f"working directory {value}, in the container"),
    "container-workdir": Meaning(_plain(words.place), lambda value, plan, around: f"working directory {value}"),
    "container-image": Meaning(_plain(image), lambda value, plan, around: f"image {value}"),
    "export": Meaning(exported, _export),
    "output": Meaning(_plain(str), _fixed("the log of its pods: t9ksched logs KIND/NAME")),
    "error": Meaning(_plain(str), _fixed("the log of its pods: t9ksched logs KIND/NAME")),
    "requeue": Meaning(_plain(str), _fixed("nothing to do: a job that is evicted is queued again")),
    "parsable": Meaning(_plain(str), _fixed("nothing to do: -o json is for programs")),
    "quiet": Meaning(_plain(str), _fixed("nothing to do")),
    "verbose": Meaning(_plain(str), _fixed("nothing to do")),
    "oversubscribe": Meaning(_plain(str), _fixed("nothing to do: nodes are shared, and cards are not")),
}
"""Options that become something, also where there is nothing to do."""

UNMET: Final[dict[str, str]] = {
    "account": "GPU-hours are counted by user and queue",
    "qos": "limits and priority are those of the queue",
    "priority": "the order within the queue is given by --priority of 0 to 100",
    "nice": "the order within the queue is given by --priority",
    "mail-type": "no mail is sent: t9ksched wait comes back when it ends",
    "mail-user": "no mail is sent: t9ksched wait comes back when it ends",
    "open-mode": "logs are kept by the cluster",
    "input": "standard input is empty",
    "wait": "t9ksched wait KIND/NAME comes back when it has ended",
    "test-only": "t9ksched submit --dry-run tells when it would start",
    "no-requeue": "a job that is evicted is queued again",
    "licenses": "licences are not counted",
    "comment": "jobs have labels and annotations",
    "nodefile": "nodes are named by --nodelist",
    "switches": "the domain of a gang is that of its queue or PodGroup (topologyPolicy)",
    "container-mounts": "volumes are claims: --mount CLAIM:/path",
    "prefer": "features are required (--constraint) or not asked for",
    "tmp": "a container's own disk is asked for in YAML (ephemeral-storage)",
}
"""Options without a counterpart where there is more to say than that."""

REFUSED: Final[dict[str, str]] = {
    "hold": "a job cannot be submitted held: leave it out, or say with --begin when it may start",
    "wrap": "is an option of the command alone: write the command into the script",
    "export-file": "variables are given as --export NAME=VALUE",
    "clusters": "there is one cluster behind a service: name another with --server",
    "gpus-per-socket": "sockets are not told apart: write --gpus-per-node",
}
"""Options without which the job would be another one."""


def shortened(names: list[str]) -> str:
    """Names for a sentence, a few of many."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
