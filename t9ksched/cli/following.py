"""Following a job: its phase, its place in the queue and the reason why it waits, told whenever one of them changes."""

import time
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.failure import Failure
from t9ksched.cli.kinds import Target
from t9ksched.cli.output import ahead, console, paragraph
from t9ksched.model.job import FINISHED

POLL_SECONDS: Final = 0.5
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
        line = Text.assemble(
            (f"{job.get('kind')}/{job.get('name')}", "bold"), " is ", (phase, PHASE_STYLES.get(phase, ""))
        )
        if started:
            line.append(f": {members.get('running', 0)} of {max(members.get('total', 0), members.get('min', 0))} run")
        elif phase not in FINISHED and (position := job.get("position")) is not None:
            line.append(f", place {position} in queue {job.get('queue')}")
            if plan:
                line.append(f", planned to start {ahead(plan.get('at'))}")
        if reason.get("code"):
            line.append(f": {reason['code']}: {reason['message']}")
        paragraph(self._out, line)


def follow(client: Client, target: Target, *, quiet: bool = False) -> dict[str, Any]:
    """Tell what becomes of a job until it has ended; the job then.

    Raises:
        Failure: it was deleted meanwhile, or the service does not answer any more.
    """
    teller = Teller(console())
    while True:
        try:
            job: dict[str, Any] = client.get(target.path)
        except Failure as failure:
            if failure.name == "NotFound":
                raise Failure(f"{target} was deleted before it ended.", name=failure.name) from None
            raise
        if not quiet:
            teller.tell(job)
        if job.get("phase") in FINISHED:
            return job
        time.sleep(POLL_SECONDS)
