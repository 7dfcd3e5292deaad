"""Following a job: its phase, its place in the queue and the reason why it waits, told whenever one of them changes."""

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.failure import Away, Failure
from t9ksched.cli.kinds import Target
from t9ksched.cli.messages import translated, word
from t9ksched.cli.output import ahead, console, paragraph
from t9ksched.model.job import FINISHED

T = TypeVar("T")
PATIENCE_SECONDS: Final = 120.0
"""How long a service may be away while a job is followed."""
PHASE_STYLES: Final = {
    "Running": "green",
    "Terminating": "magenta",
    "Waiting": "yellow",
    "Pending": "yellow",
    "Starting": "cyan",
    "Succeeded": "blue",
    "Failed": "red",
    "Refused": "red",
}


class Teller:
    """Prints what changed since it was told last."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._last: tuple[object, ...] = ()

    def tell(self, job: dict[str, Any]) -> None:
        """Print the state of a job, a line for each change."""
        members, reason = job.get("members") or {}, job.get("reason") or {}
        phase = str(job.get("phase"))
        started = phase in ("Running", "Starting")
        plan = job.get("plannedStart") or {}
        where = (members.get("running"),) if started else (job.get("position"), plan.get("at"))
        now = (phase, reason.get("message"), *where)
        if now == self._last:
            return
        self._last = now
        said = []
        if started:
            said.append(f": {members.get('running', 0)} of {max(members.get('total', 0), members.get('min', 0))} run")
        elif phase not in FINISHED and (position := job.get("position")) is not None:
            said.append(f", place {position} in queue {job.get('queue')}")
            if plan:
                said.append(f", planned to start {ahead(plan.get('at'))}")
        if reason.get("code"):
            said.append(f": {reason['code']}: {translated(reason['message'])}")
        name, style = f"{job.get('kind')}/{job.get('name')}", PHASE_STYLES.get(phase, "")
        state = Text.assemble((name, "bold"), f" {word('is')} ", (phase, style), *map(translated, said))
        paragraph(self._out, state)


class Patience:
    """Waits for a service that does not answer for a while, once it has answered."""

    def __init__(self) -> None:
        self._answered = False
        self._away_since: float | None = None

    def ask(self, question: Callable[[], T]) -> T | None:
        """The answer; None while the service is away, which people are told once.

        Raises:
            Failure: it refuses, has never answered, or stays away.
        """
        try:
            answer = question()
        except Away as away:
            now = time.monotonic()
            since = now if self._away_since is None else self._away_since
            if not self._answered or now - since > PATIENCE_SECONDS:
                raise
            if self._away_since is None:
                self._away_since = now
                paragraph(console(sys.stderr), f"{away.message} Waiting for it…")
            return None
        self._answered, self._away_since = True, None
        return answer


class Watch:
    """One job, looked at whenever something may have changed; `Patience` with the service."""

    def __init__(self, client: Client, target: Target, teller: Teller | None = None) -> None:
        self._client = client
        self._target = target
        self._teller = teller
        self._patience = Patience()
        self._changes = client.changes(about="job", namespace=target.namespace, name=target.name)

    def look(self) -> dict[str, Any] | None:
        """The job as it is now, told to people; None while the service is away.

        Raises:
            Failure: it is not there, or the service stays away.
        """
        job: dict[str, Any] | None = self._patience.ask(lambda: self._client.get(self._target.path))
        if self._teller is not None and job is not None:
            self._teller.tell(job)
        return job

    def wait(self, most: float = float("inf")) -> None:
        """Come back when it is time to look again, after so many seconds at most."""
        self._changes.wait(most)


def follow(client: Client, target: Target, *, quiet: bool = False) -> dict[str, Any]:
    """Tell what becomes of a job until it has ended; the job then.

    Raises:
        Failure: it was deleted meanwhile, or the service does not answer any more.
    """
    watch = Watch(client, target, None if quiet else Teller(console()))
    while True:
        try:
            job = watch.look()
        except Failure as failure:
            if failure.name == "NotFound":
                raise Failure(f"{target} was deleted before it ended.", name=failure.name) from None
            raise
        if job is not None and job.get("phase") in FINISHED:
            return job
        watch.wait()
