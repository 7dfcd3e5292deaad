"""What the controllers of t9ksched do for one kind: a value of three functions, which the table of kinds names.

Most kinds are gang jobs, which differ in how a `Job` is built from an object; `job_controller` makes their value.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from t9ksched.workloads import boards, lifecycle, phase
from t9ksched.workloads.actions import NO_CHILDREN, Actions, Children, Event, Expansion, Object
from t9ksched.workloads.answers import Question
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import Job
from t9ksched.workloads.jobspec import read_run_mode
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.replica import Record

Build = Callable[[Mapping[str, Any], Owner, Children], Job]
"""The job of an object without faults; its children say how far it is made."""


class Controller(msgspec.Struct, frozen=True):
    """The functions of one kind. All are pure.

    Attributes:
        expand: everything an object consists of, regardless of what exists.
        reconcile: what to do about an object without faults, given the objects it owns, now.
        asks: where an object can be asked whether anybody uses it, given the objects it owns; None where it cannot.
        withdraw: what to remove of an object whose spec has faults; arguments are the object, its status so far, that
            status' conditions to change, and the objects it owns.
    """

    expand: Callable[[Mapping[str, Any], Owner], Expansion]
    reconcile: Callable[[Mapping[str, Any], Owner, Children, datetime], Actions]
    withdraw: Callable[[Mapping[str, Any], Object, Conditions, Children], Actions]
    asks: Callable[[Mapping[str, Any], Children], Question | None] | None = None


def job_controller(build: Build) -> Controller:
    """The controller of a kind of gang job."""
    return Controller(
        expand=lambda obj, owner: build(obj, owner, NO_CHILDREN).expansion,
        reconcile=lambda obj, owner, children, now: boards.told(
            obj, children, lifecycle.reconcile(obj, build(obj, owner, children), children, now)
        ),
        withdraw=_pause,
    )


def _pause(obj: Mapping[str, Any], old: Object, conditions: Conditions, children: Children) -> Actions:
    """A job may be paused: its pods are deleted, and how they ended is forgotten, as with every pause."""
    if not read_run_mode(Field(obj)["spec"]["runMode"]).paused:
        return Actions()
    events = () if conditions.is_true("Paused") else (Event("Paused", "the job is paused: its pods are deleted"),)
    conditions.set("Running", False, "JobPaused")
    conditions.set("Paused", True, "JobPaused")
    tasks = [
        {**task, "replicas": [Record.read(each).deleted().write() for each in task.get("replicas") or ()]}
        for task in old.get("tasks") or ()
    ]
    status = {**old, "phase": "Paused", **({"tasks": tasks} if tasks else {})}
    status.pop("startTime", None)
    doomed = tuple(pod for pod in children.pods if not phase.is_terminating(pod))
    return Actions(status, doomed, events=events)
