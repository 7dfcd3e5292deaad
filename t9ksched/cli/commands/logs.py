"""`t9ksched logs`: what the pods of a job have written, and what they write."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from t9ksched.cli import arraylogs
from t9ksched.cli.arraylogs import ArrayLogs
from t9ksched.cli.arrays import elements_named
from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure, Nowhere
from t9ksched.cli.following import Teller
from t9ksched.cli.kinds import Target, parse_target
from t9ksched.cli.logfollowing import SeveralLogs
from t9ksched.cli.logprinting import LinePrinter, plain_streams
from t9ksched.cli.options import NamespaceOption, OutputOption, Service, data_dir_of, with_service
from t9ksched.cli.output import Output, console, paragraph, program
from t9ksched.cli.podaccess import KubeconfigOption, kubeconfig_of
from t9ksched.cli.ranks import read_ranks
from t9ksched.client.carrying import carry_out, lines
from t9ksched.client.errors import Unreachable
from t9ksched.client.logs import LogWish, pods
from t9ksched.client.logs import lines as log_lines
from t9ksched.client.models import Job, LogLine, Pod
from t9ksched.client.operations import Operations, Retries
from t9ksched.model.duration import parse_duration
from t9ksched.model.wall_clock import parse_moment


@with_service
def logs(
    service: Service,
    target: Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as pj/resnet.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job is over.")] = False,
    rank: Annotated[
        str | None, typer.Option("--rank", metavar="N", help="Which pods, such as 0 or 0,4-7 (default: the first).")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All pods, each line with the rank of its pod.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help="Only so many last lines.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Only what is newer: 10m, or a moment with its zone.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="Of the run before the last restart of its containers.")
    ] = False,
    container: Annotated[
        str | None, typer.Option("-c", "--container", metavar="NAME", help="Which one (default: the main one).")
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
    kubeconfig: KubeconfigOption = None,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
) -> None:
    """What the pods of a job have written; with -f what they write, also when a pod takes the place of another.
    With --kubeconfig, or where no service is known but a kubeconfig is, the cluster itself is asked.
    """
    wanted = parse_target(target, namespace)
    ranks = _ranks(rank, every=every)
    if follow and previous:
        text = "--previous is of a run that has ended: it cannot be followed."
        raise Failure(text, remedy="Leave out -f.", code=BAD_USAGE)
    wish = LogWish(container=container, tail=tail, since=_since(since), previous=previous)
    client = _asked(service, kubeconfig)
    plain_streams()
    if jobs := elements_named(client, wanted):
        arraylogs.check(every=every, ranks=ranks, array=wanted)
        printer = LinePrinter(prefixed=True, timestamps=timestamps, json=output is Output.json)
        for line in ArrayLogs(client, wanted, jobs, wish).lines(follow=follow):
            printer.print(line, flush=follow)
        printer.close()
        return
    printer = LinePrinter(
        prefixed=every or (ranks is not None and len(ranks) > 1), timestamps=timestamps, json=output is Output.json
    )
    reading = _Reading(client, wanted, wish, Waiting(quiet=output is Output.json))
    try:
        silent = True
        for line in reading.lines(ranks, every=every, follow=follow):
            printer.print(line, flush=follow)
            silent = False
        if silent and tail != 0 and since is None:
            reading.tell_failed(ranks)
    except Failure as failure:
        if failure.name != "Conflict":
            raise
        remedy = f"See why: {program()} explain {wanted} -n {wanted.namespace}"
        raise Failure(failure.message, details=failure.details, remedy=remedy, name=failure.name) from None
    finally:
        printer.close()


def _asked(service: Service, kubeconfig: Path | None) -> Client:
    """The service, or in its place the cluster."""
    data_dir = data_dir_of(service)
    config = kubeconfig_of(kubeconfig, data_dir, needed=True) if kubeconfig else None
    if config is None:
        try:
            return service()
        except Nowhere:
            if (config := kubeconfig_of(None, data_dir, needed=False)) is None:
                raise
    from t9ksched.cli.clusterlogs import ClusterClient

    return ClusterClient(str(config))


class Waiting:
    """Tells on stderr what a log is waited for, and which pod takes the place of another."""

    def __init__(self, *, quiet: bool) -> None:
        self._out = console(sys.stderr)
        self._teller = Teller(self._out) if self._out.is_terminal and not quiet else None
        self._quiet = quiet
        self._pods: dict[object, str] = {}
        self._why: set[str] = set()

    def away(self, error: Unreachable) -> None:
        """The service does not answer any more."""
        if not self._quiet:
            paragraph(self._out, f"{error.server} does not answer ({error.why}). Waiting for it…")

    def tell(self, job: Job, pod: Pod | None) -> None:
        """The job and the pod that is waited for, whenever one of them changes."""
        if self._teller is not None and (pod is None or not pod.logged):
            self._teller.tell(job.to_dict())
        if pod is None or self._quiet:
            return
        before = self._pods.setdefault(pod.rank, pod.uid)
        if before != pod.uid:
            self._pods[pod.rank] = pod.uid
            where = f" on {pod.node}" if pod.node else ""
            paragraph(self._out, f"pod {pod.name}{where} takes the place of the one before")
        if pod.reason is not None and not pod.logged:
            why = f"pod {pod.name}: {pod.reason.code}: {pod.reason.message}"
            if why not in self._why:
                self._why.add(why)
                paragraph(self._out, why)


class _Reading:
    """Reads the logs of one job."""

    def __init__(self, client: Client, target: Target, wish: LogWish, waiting: Waiting) -> None:
        self._client = client
        self._target = target
        self._wish = wish
        self._waiting = waiting
        self._operations = Operations(client.server, Retries(times=0))

    def lines(self, ranks: Sequence[int] | None, *, every: bool, follow: bool) -> Iterator[LogLine]:
        """The lines of the pods of these ranks, of the first pod without any, or of every pod."""
        with self._client.failures(self._target.path, {}):
            if ranks is not None and (known := self._pods()) and (missing := _missing(ranks, known)) is not None:
                raise no_rank(self._target, missing, known)
            if not every and (ranks is None or len(ranks) == 1):
                yield from self._one(None if ranks is None else ranks[0], follow=follow)
            elif follow:
                chosen = None if every else ranks
                several = SeveralLogs(self._client.transport, self._target, self._wish, chosen, self._waiting.tell)
                yield from several.lines()
            else:
                yield from self._several(None if every else ranks)

    def tell_failed(self, ranks: Sequence[int] | None) -> None:
        """Say of pods that wrote nothing how they failed, such as a command that is not in the image."""
        for one in self._pods():
            if one.reason is not None and one.logged and (ranks is None or one.rank in ranks):
                paragraph(console(sys.stderr), f"pod {one.name} wrote nothing: {one.reason.code}: {one.reason.message}")

    def _pods(self) -> list[Pod]:
        return carry_out(self._client.transport, pods(self._operations, str(self._target), self._target.namespace))

    def _one(self, rank: int | None, *, follow: bool) -> Iterator[LogLine]:
        wish = replace(self._wish, rank=rank, on_wait=self._waiting.tell, on_away=self._waiting.away)
        operation = log_lines(self._operations, str(self._target), self._target.namespace, wish, follow_it=follow)
        yield from lines(self._client.transport, operation)

    def _several(self, ranks: Sequence[int] | None) -> Iterator[LogLine]:
        """Pod by pod. Raises Failure when none has a log."""
        chosen = [one for one in self._pods() if ranks is None or one.rank in ranks]
        if not any(one.logged for one in chosen):
            yield from self._one(None, follow=False)  # the service says why there is none
        for one in chosen:
            if one.logged:
                wish = replace(self._wish, pod=one.name)
                operation = log_lines(
                    self._operations, str(self._target), self._target.namespace, wish, follow_it=False
                )
                yield from lines(self._client.transport, operation)
            else:
                why = f"{one.reason.code}: {one.reason.message}" if one.reason else "it has not started"
                paragraph(console(sys.stderr), f"pod {one.name} has no log: {why}")


def _missing(ranks: Sequence[int], known: Sequence[Pod]) -> int | None:
    """The first of these ranks that no pod has."""
    there = {one.rank for one in known}
    return next((rank for rank in ranks if rank not in there), None)


def no_rank(target: Target, rank: int, known: Sequence[Pod]) -> Failure:
    """The failure of a rank that no pod of the job has."""
    there = [one.rank for one in known if one.rank is not None]
    have = f"it has the ranks 0 to {max(there)}" if there else "it has no pods"
    return Failure(f"--rank {rank}: {target} has no pod of that rank: {have}.")


def _ranks(text: str | None, *, every: bool) -> list[int] | None:
    if text is None:
        return None
    if every:
        raise Failure("--rank and --all contradict each other.", remedy="Leave one of them out.", code=BAD_USAGE)
    return read_ranks(text)


def _since(text: str | None) -> datetime | float | None:
    if text is None:
        return None
    try:
        if text[:4].isdigit() and "-" in text:
            return parse_moment(text)
        duration = parse_duration(f"{text}s" if text.isdigit() else text)
    except ValueError as error:
        remedy = "Write it as 90s, 10m or 1h, or as a moment such as 2031-05-01T10:00:00Z."
        raise Failure(f"--since {text}: {error}", remedy=remedy, code=BAD_USAGE) from None
    return None if duration is None else duration.total_seconds()
