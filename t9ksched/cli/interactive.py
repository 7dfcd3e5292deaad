"""`t9ksched run --pty`: a job that is a shell. Its pod waits, the command runs in it on this terminal, and the job ends
with the command, or with the connection.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import Teller, Watch
from t9ksched.cli.kinds import Target
from t9ksched.cli.lifeline import ends_with_us
from t9ksched.cli.output import console
from t9ksched.cli.podaccess import chosen_pod
from t9ksched.model.job import FINISHED, TERMINATING

WAITING: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")
"""What the pod runs meanwhile: it does nothing, and ends when it is told to."""
_LOOK_SECONDS: Final = 1.0
_KILLED: Final = 137
"""The exit code of what a container's end has killed."""


def check(asked: Mapping[str, Any], given: Mapping[str, object], *, dry_run: bool) -> None:
    """Check that one shell on this terminal is asked for. `given` are other options by their names, if they are set.

    Raises:
        Failure: something else is.
    """
    many = "--pty gives a shell in one pod"
    faults = {
        "--array": f"{many}: an array has many." if given.get("array") is not None else "",
        "--replicas": f"{many}: --replicas {asked.get('replicas')} makes more." if _several(asked) else "",
        "--torchrun": f"{many}: torchrun starts processes of its own." if asked.get("torchrun") else "",
        "--retries": f"{many}, which is not made again: --retries is for batch jobs." if asked.get("retries") else "",
        "--follow": "--pty follows the job already." if given.get("follow") else "",
        "-o json": "--pty passes on what the command writes: there is no JSON." if given.get("json") else "",
    }
    for option, text in faults.items():
        if text and not (option == "-o json" and dry_run):
            raise Failure(text, remedy=f"Leave out {option}.", code=BAD_USAGE)
    if not dry_run and not sys.stdin.isatty():
        remedy = "Type it into a terminal, or leave out --pty: the command then runs without one."
        raise Failure("--pty needs a terminal on standard input, and this is none.", remedy=remedy, code=BAD_USAGE)


def _several(asked: Mapping[str, Any]) -> bool:
    return (asked.get("replicas") or 1) > 1


def check_service(client: Client) -> None:
    """Check that the service runs commands in pods, where no kubeconfig is known. Raises Failure."""
    if not client.get("/apis/v1/whoami").get("exec"):
        raise Failure(
            "There is no kubeconfig here, and this service runs no commands in pods.",
            remedy="Commands are run with your own rights in the cluster: name your kubeconfig by --kubeconfig FILE.",
        )


def talk(client: Client, job: Mapping[str, Any], command: list[str], kubeconfig: Path | None) -> int:
    """Run the command in the pod of a job that was submitted; its exit code. Afterwards the job is deleted.

    Raises:
        Failure: the job ended before, or meanwhile, or the command could not be run.
    """
    target = Target(str(job["namespace"]), str(job["kind"]), str(job["name"]))
    with ends_with_us(client, target):
        pod = _running(client, target)
        try:
            code = _run(client, target, pod, command, kubeconfig)
        except Failure as failure:
            raise Failure(
                failure.message, details=_why_over(client, target), remedy=failure.remedy, name=failure.name
            ) from None
        sys.stdout.flush()
        if code == _KILLED and (why := _why_over(client, target)):
            raise Failure("The command was ended with its pod.", details=why)
        return code


def _run(client: Client, target: Target, pod: dict[str, Any], command: list[str], kubeconfig: Path | None) -> int:
    if kubeconfig is None:
        from t9ksched.cli.serviceexec import run_by_service

        return run_by_service(client, target, None, {"command": command}, stdin=True, tty=True)
    from t9ksched.cli.execution import run_in_pod

    query = [("command", word) for word in command]
    query += [("container", pod["containers"][0]), ("stdin", "true"), ("stdout", "true"), ("tty", "true")]
    return asyncio.run(run_in_pod(kubeconfig, target.namespace, pod, query, stdin=True, tty=True))


def _running(client: Client, target: Target) -> dict[str, Any]:
    """The pod of the job, once it runs; meanwhile people are told why it waits, and when it shall start."""
    watch = Watch(client, target, Teller(console(sys.stderr)))
    while True:
        job = watch.look()
        phase = (job or {}).get("phase")
        if phase in (*FINISHED, TERMINATING):
            raise Failure(f"{target} is {phase}, and no shell was started.", details=_reason(job))
        if phase == "Running":
            pods = client.get(f"{target.path}/pods")["items"]
            if any(pod["phase"] == "Running" for pod in pods[:1]):
                return chosen_pod(pods, target, None, None)
            watch.wait(_LOOK_SECONDS)  # its pod is told after the job
        else:
            watch.wait()


def _why_over(client: Client, target: Target) -> list[str]:
    """What became of the job, if it is over."""
    try:
        job = client.get(target.path)
    except Failure as failure:
        return [f"{target} was deleted."] if failure.name == "NotFound" else []
    return [f"{target} is {job['phase']}.", *_reason(job)] if job["phase"] != "Running" else []


def _reason(job: Mapping[str, Any] | None) -> list[str]:
    reason = (job or {}).get("reason") or {}
    return [f"{reason['code']}: {reason['message']}"] if reason.get("code") else []
