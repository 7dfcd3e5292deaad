"""Which pod of a job a command goes to, and with which kubeconfig."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from t9ksched.cli.failure import Failure
from t9ksched.cli.kinds import Target
from t9ksched.cli.output import program
from t9ksched.client.known import default_data_dir

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="With whose rights (default: $KUBECONFIG, that of `t9ksched up`, ~/.kube/config).",
    ),
]


def chosen_pod(
    pods: Sequence[dict[str, Any]], target: Target, rank: int | None, container: str | None
) -> dict[str, Any]:
    """The pod that is meant.

    Raises:
        Failure: there is none, or it does not run, or has no such container.
    """
    remedy = f"See why: {program()} explain {target} -n {target.namespace}"
    if not pods:
        raise Failure(f"{target} has no pod: none was made yet, or those there were are deleted.", remedy=remedy)
    pod = pods[0] if rank is None else next((one for one in pods if one["rank"] == rank), None)
    if pod is None:
        there = max((one["rank"] for one in pods if one["rank"] is not None), default=0)
        raise Failure(f"--rank {rank}: {target} has no pod of that rank: it has the ranks 0 to {there}.")
    if pod["phase"] != "Running":
        why = pod.get("reason") or {}
        text = f": {why['code']}: {why['message']}" if why else ""
        raise Failure(f"Pod {pod['name']} does not run, it is {pod['phase']}{text}.", remedy=remedy)
    if container is not None and container not in pod["containers"]:
        text = f"--container {container}: pod {pod['name']} has none of that name: {', '.join(pod['containers'])}."
        raise Failure(text)
    return pod


def kubeconfig_of(given: Path | None, data_dir: Path | None, *, needed: bool) -> Path | None:
    """The kubeconfig to use; None if there is none and it is not needed. Raises Failure when it is."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    own = (data_dir or default_data_dir()) / "kubeconfig"
    places = [given] if given else [*([Path(named)] if named else []), own, Path.home() / ".kube" / "config"]
    found = next((place for place in places if place.exists()), None)
    if found is None and (given or needed):
        raise Failure(
            f"There is no kubeconfig at {' or '.join(map(str, places))}.",
            remedy="Commands are run with your own rights in the cluster: name your kubeconfig by --kubeconfig FILE.",
        )
    return found
