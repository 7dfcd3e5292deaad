"""Values as Slurm writes them: times, memory, cards, lists of hosts, features of nodes. Faults are ValueErrors."""

import re
from datetime import datetime, time, timedelta
from typing import Final, NamedTuple

from t9ksched.workloads.dependencies import ANY, OK, read_after, written

_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_MEMORY: Final = re.compile(r"([0-9]{1,12})([KMGT]?)B?", re.IGNORECASE)
_UNITS: Final = {"": "Mi", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}
_IN_MIB: Final = {"Ki": 1 / 1024, "Mi": 1.0, "Gi": 1024.0, "Ti": 1024.0 * 1024}
_TIME: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?")
_ENDLESS: Final = ("infinite", "unlimited", "0")
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([AaPp][Mm])?")
_AT: Final = {"midnight": time(0), "noon": time(12), "elevenses": time(11), "fika": time(15), "teatime": time(16)}
_AHEAD: Final = re.compile(r"now(?:\+(\d{1,9})\s*([a-z]*))?")
_AFTER: Final = {"afterok": OK, "afterany": ANY}
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_SIGNAL: Final = re.compile(r"(?:(?P<to>[RrBb]+):)?(?P<name>[A-Za-z0-9]+)(?:@(?P<seconds>[0-9]{1,5}))?")
_NUMBERS: Final = {
    1: "HUP",
    2: "INT",
    3: "QUIT",
    6: "ABRT",
    9: "KILL",
    10: "USR1",
    12: "USR2",
    14: "ALRM",
    15: "TERM",
} | {18: "CONT", 23: "URG"}
"""Signals of Linux by their numbers; not those that stop a process, which would never end."""
_NOT_HEARD: Final = ("INT", "QUIT")
"""What shells start in the background ignores these."""
TERM: Final = "TERM"
_MOST_HOSTS: Final = 10_000


def whole(text: str, least: int = 1) -> int:
    """A whole number."""
    if not _WHOLE.fullmatch(text) or int(text) < least:
        raise ValueError(f"{text!r} is no number from {least} on")
    return int(text)


def time_limit(text: str) -> str:
    """A duration of ours (`90m`, `26h`), `0` for none, from `minutes`, `minutes:seconds`, `hours:minutes:seconds`,
    `days-hours`, `days-hours:minutes` or `days-hours:minutes:seconds`.
    """
    if text.lower() in _ENDLESS:
        return "0"
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time: write minutes, hours:minutes:seconds or days-hours")
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return duration(int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds)


def duration(seconds: int) -> str:
    """Seconds as people write a duration here: `1h30m`."""
    parts = [(seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s")]
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0"


class Signal(NamedTuple):
    """A signal that comes so many seconds before the end of a job; `script`: to the script alone, and not its steps.
    `odd` is what was written where that is no signal that tasks get.
    """

    name: str
    seconds: int
    script: bool
    odd: str = ""


def signal(text: str) -> Signal:
    """A signal as `USR1@300` or `B:TERM@60`."""
    found = _SIGNAL.fullmatch(text)
    name = found["name"].upper().removeprefix("SIG") if found else ""
    if name.isdigit():
        name = _NUMBERS.get(int(name), "")
    if not found or name not in _NUMBERS.values():
        raise ValueError(f"{text!r} is no signal: write NAME@SECONDS, such as USR1@300 or B:TERM@60")
    odd = name if name in _NOT_HEARD else ""
    return Signal(TERM if odd else name, max(1, int(found["seconds"] or 60)), "B" in (found["to"] or "").upper(), odd)


class Memory(NamedTuple):
    """An amount of memory as it was written, in a unit of Kubernetes."""

    amount: int
    unit: str

    def __str__(self) -> str:
        return f"{self.amount}{self.unit}"

    def times(self, factor: int) -> "Memory":
        """So many of it."""
        return Memory(self.amount * factor, self.unit)

    @property
    def mib(self) -> int:
        """In MiB, rounded up."""
        return -int(-self.amount * _IN_MIB[self.unit] // 1)


def memory(text: str) -> Memory:
    """An amount of memory; without a unit in MiB, as Slurm counts."""
    found = _MEMORY.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no amount of memory: write a number with K, M, G or T")
    return Memory(int(found[1]), _UNITS[found[2].upper()])


def place(text: str) -> str:
    """An absolute path."""
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not absolute: write it from / on")
    return text


def nodes(text: str) -> tuple[int, int]:
    """The least and the most nodes of `2` or `2-4`."""
    least, dash, most = text.partition("-")
    found = whole(least), whole(most if dash else least)
    if found[0] > found[1]:
        raise ValueError(f"{text!r} asks for more nodes at least than at most")
    return found


class Cards(NamedTuple):
    """So many cards; `model` is the type that was named, or empty."""

    number: int
    model: str = ""


def cards(text: str) -> Cards:
    """Cards as `4` or `a100:4`."""
    model, colon, count = text.rpartition(":")
    if colon and not model:
        raise ValueError(f"{text!r} names no cards: write N or TYPE:N")
    if "," in text:
        raise ValueError(f"{text!r} has cards of several types: one job here has cards of one sort")
    return Cards(whole(count, 0), model)


def gres(text: str) -> tuple[Cards | None, list[str]]:
    """The cards of `gpu`, `gpu:2` or `gpu:a100:2`, and other resources that are named."""
    found: Cards | None = None
    others = []
    for entry in text.split(","):
        name, *parts = entry.strip().split(":")
        if name.removeprefix("gres/") != "gpu":
            others.append(entry)
        elif found is not None:
            raise ValueError(f"{text!r} has cards of several types: one job here has cards of one sort")
        elif parts and parts[-1].isdigit():
            found = cards(":".join(parts))
        else:
            found = Cards(1, parts[0] if parts else "")
    return found, [one for one in others if one and one.lower() != "none"]


def begin(text: str, now: datetime) -> str | None:
    """The moment of `--begin` with its offset, None for at once. `now` is aware; times without a date are its next.

    A date has no zone: it is that of `now`.
    """
    word = text.strip().lower()
    if ahead := _AHEAD.fullmatch(word):
        if ahead[1] is None:
            return None
        size = _SECONDS.get(ahead[2].removesuffix("s") or "second")
        if size is None:
            raise ValueError(f"{text!r} is no moment: write now+COUNT with seconds, minutes, hours, days or weeks")
        return _told(now + timedelta(seconds=int(ahead[1]) * size))
    if word in ("today", "tomorrow"):
        return _told(now + timedelta(days=1)) if word == "tomorrow" else None
    moment = _AT.get(word) or _clock(word)
    if moment is not None:
        then = now.replace(hour=moment.hour, minute=moment.minute, second=moment.second, microsecond=0)
        return _told(then if then > now else then + timedelta(days=1))
    try:
        there = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no moment: write HH:MM, YYYY-MM-DDTHH:MM:SS or now+1hour") from None
    return _told(there if there.tzinfo is not None else there.replace(tzinfo=now.tzinfo))


def _clock(text: str) -> time | None:
    found = _CLOCK.fullmatch(text)
    if not found:
        return None
    hour = int(found[1])
    if found[4]:
        hour = hour % 12 + (12 if found[4].lower() == "pm" else 0)
    try:
        return time(hour, int(found[2]), int(found[3] or 0))
    except ValueError:
        return None


def _told(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat()


def dependency(text: str) -> str:
    """What a job waits for, as our annotation has it, from `afterok:KIND/NAME[:KIND/NAME…]` and `afterany:…`."""
    if "?" in text:
        raise ValueError(
            f"{text!r} is met by any one of several, which has no counterpart: all must be met, with commas"
        )
    parts: list[str] = []
    for entry in text.split(","):
        kind, *jobs = entry.strip().split(":")
        condition = _AFTER.get(kind.lower())
        if condition is None or not jobs:
            raise ValueError(f"{entry!r} has no counterpart: write afterok:KIND/NAME or afterany:KIND/NAME")
        if numbered := next((job for job in jobs if "/" not in job), None):
            raise ValueError(f"{numbered!r} names no job here: jobs have names, such as job/prep")
        parts += [f"{job}:{condition}" for job in jobs]
    return written(read_after(", ".join(parts)))


def hosts(text: str) -> list[str]:
    """The names of a list of hosts: `a100-[0-2,7],cpu1`."""
    found: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        if part:
            found += _expanded(part)
        if len(found) > _MOST_HOSTS:
            raise ValueError(f"{text!r} names more than {_MOST_HOSTS} hosts")
    if not found:
        raise ValueError("names no host")
    return list(dict.fromkeys(found))


def _expanded(part: str) -> list[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        if "]" in part or "/" in part:
            raise ValueError(f"{part!r} is no list of hosts: write them as node[1-4,7]")
        return [part]
    inside, end, after = rest.partition("]")
    if not end or not inside:
        raise ValueError(f"{part!r} is no list of hosts: write them as node[1-4,7]")
    tails = _expanded(after) if after else [""]
    found = []
    for entry in inside.split(","):
        first, dash, last = entry.partition("-")
        low, high = whole(first, 0), whole(last if dash else first, 0)
        if high - low > _MOST_HOSTS:
            raise ValueError(f"{part!r} names more than {_MOST_HOSTS} hosts")
        found += [f"{before}{number:0{len(first)}d}{tail}" for number in range(low, high + 1) for tail in tails]
    return found


def features(text: str) -> list[list[str]]:
    """Features of nodes as alternatives, each of which names features that must all be there: `a&b|c`, and `[a|b]`."""
    plain = text.strip()
    if plain.startswith("[") and plain.endswith("]"):
        plain = plain[1:-1]
    if odd := next((one for one in "[]()*!" if one in plain), ""):
        raise ValueError(f"{text!r} has {odd!r}, which has no counterpart: write features with & and | alone")
    found = [[word.strip() for word in re.split(r"[&,]", one)] for one in plain.split("|")]
    if not all(word for one in found for word in one):
        raise ValueError(f"{text!r} lacks a feature: write them as a100&ib or a100|h100")
    return found
