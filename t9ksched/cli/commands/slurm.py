"""`t9ksched squeue` and the like: what a command of Slurm is here, with its options in our words. Nothing is done."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, NoReturn

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.workloads.compose.sbatch import words

_GUIDE: Final = "docs/guides/slurm.md has the table of words."
Words = list[str]

_STATES: Final = {
    "PD": "Pending",
    "PENDING": "Pending",
    "R": "Running",
    "RUNNING": "Running",
    "S": "Paused",
    "SUSPENDED": "Paused",
    "CD": "Succeeded",
    "COMPLETED": "Succeeded",
    "F": "Failed",
    "FAILED": "Failed",
    "TO": "Failed",
    "TIMEOUT": "Failed",
    "CG": "Terminating",
    "COMPLETING": "Terminating",
}
_SUBMITTED: Final = {
    "p": "--queue",
    "partition": "--queue",
    "t": "--time-limit",
    "time": "--time-limit",
    "b": "--begin",
    "begin": "--begin",
    "reservation": "--reservation",
    "D": "--workdir",
    "chdir": "--workdir",
    "test-only": "--dry-run",
    "container-image": "--image",
}
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[…]", help="As Slurm has them.")]


def sbatch(arguments: Arguments = None) -> None:
    """Slurm's sbatch is `t9ksched submit SCRIPT` here: its #SBATCH lines are translated and told."""
    given, rest = _taken(arguments, "AabcCdDeGiJLmMnNopqStwxB")
    ours = ["t9ksched", "submit", rest[0] if rest else "SCRIPT"]
    left = []
    for option, value in given:
        if option in _SUBMITTED:
            word = _SUBMITTED[option]
            ours += [word, *([] if option == "test-only" else [_value(word, value or "VALUE")])]
        elif option == "wrap":
            _answer("sbatch", ["t9ksched", "run", "--image", "IMAGE", "--", "sh", "-c", value or "COMMAND"])
        else:
            left.append(_option(option))
    if rest[1:]:
        ours += ["--args", shlex.join(rest[1:])]
    if "--image" not in ours:
        ours += ["--image", "IMAGE"]
    _answer("sbatch", ours, f"{', '.join(left)}: write it into the script, as #SBATCH {left[0]}" if left else "")


def srun(arguments: Arguments = None) -> None:
    """Slurm's srun is `t9ksched run` here."""
    given, rest = _taken(arguments, "AbcCdDeGiJLmMnNopqStwxB")
    how = "--pty" if any(option == "pty" for option, _ in given) else "--follow"
    command = rest or ["bash" if how == "--pty" else "CMD"]
    _answer("srun", ["t9ksched", "run", "--image", "IMAGE", "--gpus", "N", how, "--", *command])


def squeue(arguments: Arguments = None) -> None:
    """Slurm's squeue is `t9ksched jobs` here."""
    given, _ = _taken(arguments, "upjtnwMASoOiqrR")
    ours = ["t9ksched", "jobs"]
    for option, value in given:
        match option:
            case "me":
                ours.append("--mine")
            case "u" | "user":
                ours += _each("--user", value)
            case "p" | "partition":
                ours += _each("--queue", value)
            case "t" | "states":
                ours += [word for one in _states(value) for word in ("--phase", one)]
            case "j" | "jobs":
                _answer("squeue", ["t9ksched", "explain", _job(value)])
            case "i" | "iterate":
                ours.append("--watch")
            case "o" | "O" | "format" | "Format":
                ours += ["-o", "wide"]
    _answer("squeue", ours)


def scancel(arguments: Arguments = None) -> None:
    """Slurm's scancel is `t9ksched cancel KIND/NAME` here."""
    _, rest = _taken(arguments, "AnpqRstuwM")
    _answer("scancel", ["t9ksched", "cancel", *_jobs(rest)], _NAMED)


def sinfo(arguments: Arguments = None) -> None:
    """Slurm's sinfo is `t9ksched nodes` and `t9ksched queues list` here."""
    given, _ = _taken(arguments, "npotiMSO")
    nodes = [value for option, value in given if option in ("n", "nodes") and value]
    _answer("sinfo", ["t9ksched", "nodes", *nodes[:1]], "Partitions are queues: t9ksched queues list")


def sacct(arguments: Arguments = None) -> None:
    """Slurm's sacct is `t9ksched history` here, and `t9ksched usage` for GPU-hours."""
    given, _ = _taken(arguments, "ujSEsoArNngM")
    ours = ["t9ksched", "history"]
    for option, value in given:
        if option in ("j", "jobs"):
            _answer("sacct", ["t9ksched", "history", _job(value)])
        if option in ("u", "user"):
            ours += _each("--user", value)
        elif option in ("r", "partition"):
            ours += _each("--queue", value)
        elif option in ("s", "state"):
            ours += _each("--phase", ",".join(_states(value)))
        elif option in ("S", "starttime"):
            ours += ["--since", value or "7d"]
    _answer("sacct", ours, "GPU-hours by user, queue and month: t9ksched usage --by month")


def scontrol(arguments: Arguments = None) -> None:
    """Slurm's scontrol is `t9ksched explain`, `nodes`, `queues`, `hold`, `release` or `update` here."""
    _, rest = _taken(arguments, "MW")
    verb, *others = rest or [""]
    ours = _controlled(verb.lower(), others)
    unknown = f"What 'scontrol {verb}' does has no counterpart" if verb else ""
    _answer("scontrol", ours or ["t9ksched", "--help"], "" if ours else unknown)


_VERBS: Final = {"suspend": "pause", "resume": "resume", "requeue": "resubmit"}
_NAMED: Final = "Jobs are named, not numbered: t9ksched jobs --mine shows yours"


def _controlled(verb: str, rest: Sequence[str]) -> Words | None:
    first = rest[0].lower() if rest else ""
    name = rest[1] if len(rest) > 1 else ""
    pairs = dict(one.lower().split("=", 1) for one in rest if "=" in one)
    if verb == "show":
        return {
            "job": ["t9ksched", "explain", _job(name)],
            "jobs": ["t9ksched", "jobs", "-o", "wide"],
            "node": ["t9ksched", "nodes", *([name] if name else [])],
            "nodes": ["t9ksched", "nodes", *([name] if name else [])],
            "partition": ["t9ksched", "queues", *(["get", name] if name else ["list"])],
            "partitions": ["t9ksched", "queues", "list"],
            "reservation": ["t9ksched", "reservations", *(["get", name] if name else ["list"])],
            "reservations": ["t9ksched", "reservations", "list"],
            "config": ["t9ksched", "doctor"],
        }.get(first)
    if verb in ("hold", "uhold", "release"):
        return ["t9ksched", verb.removeprefix("u"), *_jobs(rest)]
    if verb in _VERBS:
        return ["t9ksched", _VERBS[verb], *_jobs(rest)]
    if verb == "update" and "jobid" in pairs:
        if "priority" in pairs:
            return ["t9ksched", "prioritise", _job(pairs["jobid"]), "--priority", "0…100"]
        return ["t9ksched", "update", _job(pairs["jobid"]), "--time-limit", pairs.get("timelimit", "T")]
    if verb == "update" and "nodename" in pairs:
        return ["t9ksched", "nodes", pairs["nodename"], "cordon", "--gpu", "INDEX"]
    if verb == "update" and "partitionname" in pairs:
        action = {"down": "close", "up": "open", "drain": "drain", "inactive": "close"}
        return ["t9ksched", "queues", action.get(pairs.get("state", ""), "edit"), pairs["partitionname"]]
    if verb == "create" and first.startswith("reservation"):
        return ["t9ksched", "reservations", "create", "NAME"]
    return {"top": ["t9ksched", "prioritise", _job(first), "--priority", "100"], "ping": ["t9ksched", "doctor"]}.get(
        verb
    )


def _taken(arguments: Sequence[str] | None, valued: str) -> tuple[list[tuple[str, str | None]], Words]:
    """The options among the words with their values, and the words behind them. `valued` are letters with a value."""
    left, found = list(arguments or []), list[tuple[str, str | None]]()
    while left and left[0].startswith("-") and len(left[0]) > 1:
        word = left.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name in _LONG and left:
                value = left.pop(0)
            found.append((name, value or None))
        else:
            letter, value = word[1], word[2:]
            if not value and letter in valued and left:
                value = left.pop(0)
            found.append((letter, value or None))
    return found, left


_LONG: Final = frozenset(
    {"partition", "time", "begin", "user", "states", "jobs", "job-name", "nodes", "ntasks", "gres", "mem", "wrap"}
    | {"cpus-per-task", "account", "chdir", "format", "output", "error", "gpus", "constraint", "reservation", "iterate"}
)
"""Options that have a value also without `=`."""


def _states(value: str | None) -> list[str]:
    """The phases that states of Slurm are, each once."""
    states = [_STATES.get(one.upper(), one) for one in (value or "").split(",") if one.lower() != "all"]
    return list(dict.fromkeys(states))


def _each(option: str, value: str | None) -> Words:
    return [word for one in (value or "NAME").split(",") for word in (option, one)]


def _job(text: str | None) -> str:
    """A job by the name that it has here; Slurm's numbers name none."""
    word = (text or "").split(",")[0]
    return word if "/" in word else "KIND/NAME"


def _value(option: str, text: str) -> str:
    """A time as it is written here; other values, and what is no time, as they are."""
    try:
        if option == "--time-limit":
            return words.time_limit(text)
        return words.begin(text, datetime.now().astimezone()) or "now" if option == "--begin" else text
    except ValueError:
        return text


def _jobs(texts: Sequence[str]) -> Words:
    return [_job(one) for one in texts] or ["KIND/NAME"]


def _option(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _answer(theirs: str, ours: Words, more: str = "") -> NoReturn:
    """Say the command that does it here. Raises Failure: nothing was done."""
    command = " ".join(word if word == shlex.quote(word) or "…" in word else shlex.quote(word) for word in ours)
    raise Failure(
        f"{theirs} is a command of Slurm. Here it is: {command}",
        details=[more] if more else [],
        remedy=_GUIDE,
        code=BAD_USAGE,
    )
