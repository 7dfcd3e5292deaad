"""The life of an experiment: from its trials on record and the jobs that there are to the next actions and its status.

`reconcile` is pure. A trial is written into the status with its parameters, and its token and its job are created
after that: a controller that dies in between finds it there, and makes the same job. The result of a trial is in the
status once its job has ended, and stays when the job is gone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from t9ksched.model.names import PLATFORM_GROUP
from t9ksched.model.reasons import Code
from t9ksched.workloads import phase
from t9ksched.workloads.actions import Actions, Children, Event, Object, metadata, name_of
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.keypair import TOKEN_ANNOTATION
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.tuning.assess import stopped
from t9ksched.workloads.tuning.filling import trial_job
from t9ksched.workloads.tuning.settings import Assessor, Tuner
from t9ksched.workloads.tuning.space import Space
from t9ksched.workloads.tuning.suggest import missing_library, size_of, suggest
from t9ksched.workloads.tuning.tokens import Tokens
from t9ksched.workloads.tuning.trials import Results, Trial, best_of, result_in

PENDING, RUNNING, PAUSED, DONE, TIMEOUT, ERROR = "PENDING", "RUNNING", "PAUSED", "DONE", "TIMEOUT", "ERROR"
TRIAL_KINDS: Final = ("PyTorchTrainingJob", "TensorFlowTrainingJob", "XGBoostTrainingJob")
PAUSED_ANNOTATION: Final = f"{PLATFORM_GROUP}/paused-by-experiment"
"""On a trial's job that the experiment paused, and resumes: one that somebody else paused stays so."""
_LIMITS: Final = (str(Code.MAX_DURATION_EXCEEDED), str(Code.TIME_LIMIT_EXCEEDED))
_LOOK_AGAIN: Final = 60.0
"""Seconds between two looks for a library that is missing."""
_TUNER_READY: Final = "TunerReady"


class Experiment(msgspec.Struct, frozen=True):
    """The spec of an experiment.

    Attributes:
        kind: of the trials' jobs.
        most: trials, in all.
        at_once: trials that run at the same time.
        seconds: after which no trial is made any more, 0 for any.
        job: the spec of a trial's job, without the parameters.
    """

    kind: str
    space: Space
    tuner: Tuner
    assessor: Assessor | None
    most: int
    at_once: int
    seconds: int
    paused: bool
    job: Mapping[str, Any]

    @property
    def total(self) -> int:
        """Trials in all: a grid may have fewer points than are asked for."""
        return min(self.most, size_of(self.space, self.tuner) or self.most)


def first_trials(spec: Experiment, owner: Owner) -> tuple[Object, ...]:
    """The jobs of the trials that run first, none if the tuner cannot suggest any."""
    trials: list[Trial] = []
    if not missing_library(spec.tuner):
        for number in range(min(spec.at_once, spec.total)):
            trials.append(_new(spec, owner, number, trials))
    return tuple(trial_job(owner, spec.kind, spec.job, each) for each in trials)


def reconcile(obj: Mapping[str, Any], spec: Experiment, owner: Owner, children: Children, now: datetime) -> Actions:
    """What to do about an experiment now."""
    old: Mapping[str, Any] = obj.get("status") or {}
    jobs = {name_of(each): each for each in children.companions if each["kind"] in TRIAL_KINDS}
    trials = [Trial.read(each) for each in old.get("trials") or ()]
    if old.get("phase") in (DONE, ERROR):
        return Actions(delete=(*_spared(trials, jobs), *Tokens.of(owner, spec.kind, trials, children).delete))
    conditions, stamp, events = Conditions(old, now), phase.format_time(now), []
    for at, trial in enumerate(trials):
        trials[at] = _stop(_seen(trial, jobs.get(trial.name), stamp), trials, jobs, spec, stamp)
        if not trials[at].live and trial.live:
            events.append(_ending(trials[at]))
    clock = _Clock.read(old).at(now, paused=spec.paused, runs=any(_runs(each, stamp) for each in trials))
    over = old.get("phase") == TIMEOUT or bool(spec.seconds and clock.elapsed(now) >= spec.seconds)
    missing = ""
    if not spec.paused and not over:
        missing = missing_library(spec.tuner)
        fresh = [] if missing else _more(spec, owner, trials)
        events += [Event("TrialCreated", f"trial {each.number} is made with {_told(each)}") for each in fresh]
        trials += fresh
    events += _tell_missing(conditions, missing, spec.tuner)
    shown = _phase(spec, trials, clock, over=over)
    if shown != old.get("phase") and shown in (PAUSED, DONE, TIMEOUT, ERROR):
        events.append(_end_event(shown, spec, trials))
    status = _status(old, spec, conditions, trials, clock, shown, stamp)
    tokens = Tokens.of(owner, spec.kind, trials, children, paused=spec.paused)
    create = [
        trial_job(owner, spec.kind, spec.job, each, tokens.digests[each.name])
        for each in trials
        if each.live and not spec.paused and each.name not in jobs and each.name in tokens.digests
    ]
    kept = [(jobs[each.name], tokens.digests.get(each.name, "")) for each in trials if each.live and each.name in jobs]
    update = [made for job, digest in kept if (made := _kept(job, digest, paused=spec.paused)) is not None]
    waits = [_LOOK_AGAIN] if missing else []
    if spec.seconds and clock.since is not None and not over:
        waits.append(max(0.0, spec.seconds - clock.elapsed(now)))
    return Actions(
        status if status != old else None,
        (*_spared(trials, jobs), *tokens.delete),
        (*tokens.create, *create),
        tuple(events),
        min(waits, default=None),
        tuple(update),
    )


def pause_faulty(old: Object, conditions: Conditions, children: Children) -> Actions:
    """Pause one whose spec has faults."""
    if old.get("phase") in (DONE, TIMEOUT, ERROR):
        return Actions()
    live = {str(each["name"]) for each in old.get("trials") or () if Trial.read(each).live}
    jobs = [each for each in children.companions if each["kind"] in TRIAL_KINDS and name_of(each) in live]
    update = [made for each in jobs if (made := _kept(each, "", paused=True)) is not None]
    told = conditions.is_true("Paused")
    conditions.set("Paused", True, "JobPaused")
    events = () if told else (Event("Paused", "the experiment is paused: the pods of its trials are deleted"),)
    return Actions({**old, "phase": PAUSED}, events=events, update=tuple(update))


def _new(spec: Experiment, owner: Owner, number: int, before: Sequence[Trial]) -> Trial:
    parameters = suggest(spec.space, spec.tuner, owner.uid or owner.name, number, before)
    return Trial(number, f"{owner.name}-{number}", parameters)


def _more(spec: Experiment, owner: Owner, trials: Sequence[Trial]) -> list[Trial]:
    """The trials to be made now."""
    free = spec.at_once - sum(each.live for each in trials)
    fresh: list[Trial] = []
    for number in range(len(trials), min(spec.total, len(trials) + max(0, free))):
        fresh.append(_new(spec, owner, number, [*trials, *fresh]))
    return fresh


def _seen(trial: Trial, job: Object | None, stamp: str) -> Trial:
    """The trial as its job shows it."""
    if not trial.live or job is None:
        return trial
    status = job.get("status") or {}
    shown = status.get("phase")
    if shown == "Running":
        return replace(trial, phase="Running", started=trial.started or stamp)
    ended = replace(trial, ended=stamp, started=trial.started or stamp)
    if shown == "Succeeded":
        value = _value(job)
        if value is not None:
            return replace(ended, phase="Succeeded", value=value)
        return replace(ended, phase="Failed", message="it ended well and reported no result")
    if shown == "Failed":
        return replace(ended, phase="Failed", message=_failure(status))
    if shown == "Paused" and (why := _limit(status)):
        return replace(ended, phase="Failed", message=why)
    return replace(trial, phase="Pending")


def _value(job: Mapping[str, Any]) -> float | None:
    """The result of a trial that ended well: what its program sent, else the last words of its leader."""
    sent = Results.of(job)
    return sent.final if sent.final is not None else said if (said := _last_words(job)) is not None else sent.value


def _last_words(job: Mapping[str, Any]) -> float | None:
    tasks = (job.get("status") or {}).get("tasks") or ()
    leader: Mapping[str, Any] = next((each for task in tasks[:1] for each in (task.get("replicas") or ())[:1]), {})
    said = (result_in(str(each.get("message") or "")) for each in leader.get("containers") or ())
    return next((each for each in said if each is not None), None)


def _failure(status: Mapping[str, Any]) -> str:
    for each in status.get("conditions") or ():
        if (each.get("type"), each.get("status")) == ("Failed", "True"):
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _limit(status: Mapping[str, Any]) -> str:
    """At which limit the scheduler ended a job, in words; empty if somebody else paused it."""
    for each in status.get("conditions") or ():
        if (each.get("type"), each.get("status")) == ("Paused", "True") and each.get("reason") in _LIMITS:
            return str(each.get("message") or each["reason"])
    return ""


def _stop(trial: Trial, trials: Sequence[Trial], jobs: Mapping[str, Object], spec: Experiment, stamp: str) -> Trial:
    """The trial, stopped if the assessor says so."""
    job = jobs.get(trial.name)
    if spec.assessor is None or job is None or not trial.live:
        return trial
    done = [each for each in trials if each.phase == "Succeeded"]
    ended = [Results.of(jobs[each.name]) for each in done if each.name in jobs]
    best = best_of(done, maximize=spec.assessor.maximize)
    mine = Results.of(job)
    why = stopped(spec.assessor, mine, ended, best.value if best is not None else None)
    if not why:
        return trial
    step, value = mine.steps[-1]
    return replace(trial, phase="Stopped", value=value, step=step, message=why, ended=stamp)


def _spared(trials: Sequence[Trial], jobs: Mapping[str, Object]) -> tuple[Object, ...]:
    """Jobs of trials that were stopped."""
    names = [each.name for each in trials if each.phase == "Stopped" and each.name in jobs]
    return tuple(jobs[name] for name in names if not phase.is_terminating(jobs[name]))


def _kept(job: Object, digest: str, *, paused: bool) -> Object | None:
    """The job of a trial, paused or resumed with its experiment, and with the hash of its token; None if it is as it
    must be.
    """
    notes = dict(metadata(job).get("annotations") or {})
    mode = (job.get("spec") or {}).get("runMode") or {}
    pause = mode.get("pause") or {}
    marked = PAUSED_ANNOTATION in notes
    stays = bool(pause.get("enabled")) if paused else not marked
    known = not digest or notes.get(TOKEN_ANNOTATION) == digest
    if phase.is_terminating(job) or (stays and known):
        return None
    spec = job["spec"]
    if not stays:
        notes = {key: text for key, text in notes.items() if key != PAUSED_ANNOTATION}
        notes |= {PAUSED_ANNOTATION: "true"} if paused else {}
        spec = {**spec, "runMode": {**mode, "pause": {**pause, "enabled": paused}}}
    notes |= {TOKEN_ANNOTATION: digest} if digest else {}
    return {**job, "metadata": {**job["metadata"], "annotations": notes}, "spec": spec}


@dataclass(frozen=True, slots=True)
class _Clock:
    """How long trials were let run: seconds of runs before, and the begin of this one."""

    before: float = 0.0
    since: datetime | None = None

    @classmethod
    def read(cls, status: Mapping[str, Any]) -> "_Clock":
        since = status.get("startTime")
        return cls(float(status.get("ranSeconds") or 0), phase.parse_time(since) if since else None)

    def elapsed(self, now: datetime) -> float:
        return self.before + ((now - self.since).total_seconds() if self.since is not None else 0.0)

    def at(self, now: datetime, *, paused: bool, runs: bool) -> "_Clock":
        """It stands while the experiment is paused, and goes from the moment a trial runs."""
        if paused:
            return _Clock(round(self.elapsed(now)))
        if self.since is None and runs:
            return replace(self, since=now)
        return self


def _runs(trial: Trial, stamp: str) -> bool:
    return trial.phase == "Running" or trial.ended == stamp


def _phase(spec: Experiment, trials: Sequence[Trial], clock: _Clock, *, over: bool) -> str:
    live = any(each.live for each in trials)
    if not live and len(trials) >= spec.total:
        return DONE if any(each.phase == "Succeeded" for each in trials) else ERROR
    if over:
        return TIMEOUT
    if spec.paused:
        return PAUSED
    return RUNNING if clock.since is not None or clock.before else PENDING


def _told(trial: Trial) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in trial.parameters.items())
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def _ending(trial: Trial) -> Event:
    if trial.phase == "Succeeded":
        return Event("TrialSucceeded", f"trial {trial.number} has the result {trial.value:g}")
    if trial.phase == "Stopped":
        return Event("TrialStopped", f"trial {trial.number} is stopped: {trial.message}")
    return Event("TrialFailed", f"trial {trial.number} failed: {trial.message or 'its job failed'}", "Warning")


def _tell_missing(conditions: Conditions, missing: str, tuner: Tuner) -> list[Event]:
    """The condition that says what must be installed, while anything must."""
    if not missing:
        conditions.drop(_TUNER_READY)
        return []
    message = f"the tuner {tuner.name} needs a library that the controllers do not have: {missing}, where they run"
    told = conditions.message(_TUNER_READY) == message
    conditions.set(_TUNER_READY, False, "LibraryMissing", message)
    return [] if told else [Event("TunerMissing", message, "Warning")]


def _summary(spec: Experiment, trials: Sequence[Trial]) -> str:
    best = best_of(trials, maximize=spec.tuner.maximize)
    text = f"{sum(not each.live for each in trials)} of {spec.total} trials ended"
    return text if best is None else f"{text}, the best is trial {best.number} with {best.value:g} ({_told(best)})"


def _end_event(shown: str, spec: Experiment, trials: Sequence[Trial]) -> Event:
    if shown == PAUSED:
        return Event("Paused", "the experiment is paused: the pods of its trials are deleted")
    if shown == DONE:
        return Event("Completed", _summary(spec, trials))
    if shown == TIMEOUT:
        text = f"{spec.seconds} s are over, no trial is made any more: {_summary(spec, trials)}"
        return Event("Timeout", text, "Warning")
    return Event("Failed", "no trial gave a result", "Warning")


def _status(
    old: Mapping[str, Any],
    spec: Experiment,
    conditions: Conditions,
    trials: Sequence[Trial],
    clock: _Clock,
    shown: str,
    stamp: str,
) -> Object:
    """The whole status. Fields that others may keep there stay."""
    finished, failed = shown in (DONE, TIMEOUT, ERROR), shown in (TIMEOUT, ERROR)
    summary = _summary(spec, trials)
    why = {TIMEOUT: "MaxExecSecondsExceeded", ERROR: "NoResult"}.get(shown, "-")
    if not conditions.reason("Initialized"):
        conditions.set("Initialized", True, "ExperimentInitialized")
    conditions.set("Running", shown == RUNNING, "ExperimentRunning" if shown == RUNNING else "-")
    conditions.set("Paused", shown == PAUSED, "JobPaused" if shown == PAUSED else "-")
    conditions.set("Completed", finished, "ExperimentEnded" if finished else "-", summary if finished else "")
    conditions.set("Failed", failed, why, f"no trial gave a result: {summary}" if shown == ERROR else summary * failed)
    counts = Counter(each.phase.lower() for each in trials)
    status: Object = {
        **old,
        "phase": shown,
        "conditions": conditions.as_list(),
        "trials": [each.write() for each in trials],
        "trialCounts": {word: counts[word] for word in ("pending", "running", "succeeded", "failed", "stopped")},
    }
    best = best_of(trials, maximize=spec.tuner.maximize)
    more: Object = {
        "best": None
        if best is None
        else {"number": best.number, "name": best.name, "parameters": dict(best.parameters), "value": best.value},
        "startTime": None if clock.since is None else phase.format_time(clock.since),
        "ranSeconds": round(clock.before) or None,
        "completionTime": (old.get("completionTime") or stamp) if finished else None,
    }
    status |= {key: each for key, each in more.items() if each is not None}
    return {key: each for key, each in status.items() if key not in more or more[key] is not None}
