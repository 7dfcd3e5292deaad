"""The condition Idle, as a table: what Jupyter answered, what was reported, and what follows."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.model.names import LAST_ACTIVITY_ANNOTATION
from t9ksched.workloads.actions import IDLE_AFTER
from t9ksched.workloads.activity import IDLE_WRITTEN_EVERY, WRITTEN_EVERY
from t9ksched.workloads.answers import NOT_YET, Activity, Question, read_jupyter
from t9ksched.workloads.registry import KINDS
from tests.unit.workloads.builders import NOW, World, notebook, tensorboard

AGO = {name: NOW - timedelta(hours=hours) for name, hours in (("just", 0.5), ("long", 5), ("ages", 30))}
KEYS = {"enabled": True, "authorized_keys": ["ssh-ed25519 AAA ann"]}


class Used(World):
    """A workload whose pod became ready long ago, and what it answered."""

    def __init__(self, workload: dict[str, Any], activity: Activity | None = None, reported: str | None = None) -> None:
        super().__init__(workload)
        self.activity = activity
        if reported is not None:
            self.obj["metadata"]["annotations"] = {LAST_ACTIVITY_ANNOTATION: reported}
        self.settle()
        for name in self.pods():
            self.set_phase(name, "Running", podIP="10.1.2.3")
            ready = self.pod(name)["status"]["conditions"][0]
            ready["lastTransitionTime"] = (NOW - timedelta(days=9)).isoformat()
        self.settle()

    def report(self, used: datetime) -> None:
        self.obj["metadata"]["annotations"] = {LAST_ACTIVITY_ANNOTATION: text(used)}

    @property
    def idle(self) -> tuple[str, str]:
        found = next(each for each in self.status["conditions"] if each["type"] == "Idle")
        return found["status"], found["reason"]


def text(moment: datetime) -> str:
    return moment.isoformat()


@pytest.mark.parametrize(
    ("workload", "activity", "reported", "idle"),
    [
        (notebook(), None, None, ("Unknown", "NotMeasured")),
        (notebook(), Activity(AGO["just"]), None, ("False", "Active")),
        (notebook(), Activity(AGO["long"]), None, ("True", "NoActivity")),
        (notebook(), Activity(AGO["long"], busy="1 of its kernels works"), None, ("False", "Active")),
        (notebook(), Activity(AGO["ages"]), text(AGO["just"]), ("False", "Active")),
        (notebook(), Activity(AGO["just"]), text(AGO["ages"]), ("False", "Active")),
        (notebook(), Activity(reason="NotReachable", message="x"), None, ("Unknown", "NotReachable")),
        (notebook(), Activity(reason="NotReachable", message="x"), text(AGO["long"]), ("Unknown", "NotReachable")),
        (notebook(), Activity(reason="NotReachable", message="x"), text(AGO["just"]), ("False", "Active")),
        (notebook(), Activity(reason="LoginRequired", message="x"), text(AGO["long"]), ("True", "NoActivity")),
        (notebook(), NOT_YET, None, ("Unknown", "NotAskedYet")),
        (notebook(), NOT_YET, text(AGO["long"]), ("Unknown", "NotAskedYet")),
        (notebook(), NOT_YET, text(AGO["just"]), ("False", "Active")),
        (notebook(), Activity(AGO["long"], at=AGO["long"]), None, ("False", "Active")),
        (notebook(), Activity(AGO["ages"], at=AGO["just"]), None, ("True", "NoActivity")),
        (notebook(), Activity(AGO["ages"], at=AGO["long"]), text(AGO["just"]), ("False", "Active")),
        (notebook(), Activity(AGO["long"]), "yesterday", ("Unknown", "ReportUnreadable")),
        (notebook(type="rstudio"), Activity(AGO["ages"]), None, ("False", "AlwaysActive")),
        (notebook(type="Jupyter"), Activity(AGO["long"]), None, ("True", "NoActivity")),
        (notebook(ssh=KEYS), Activity(AGO["long"]), None, ("Unknown", "NotSeen")),
        (notebook(ssh=KEYS), Activity(AGO["just"]), None, ("False", "Active")),
        (notebook(ssh=KEYS), Activity(AGO["long"]), text(AGO["ages"]), ("True", "NoActivity")),
        (notebook(ssh={"enabled": False}), Activity(AGO["long"]), None, ("True", "NoActivity")),
        (notebook(suspend=True), Activity(AGO["long"]), None, ("Unknown", "NotRunning")),
        (tensorboard(), None, None, ("Unknown", "NotMeasured")),
        (tensorboard(), None, text(AGO["long"]), ("True", "NoActivity")),
        (tensorboard(), None, text(AGO["just"]), ("False", "Active")),
        (notebook(), Activity(NOW + timedelta(days=1)), None, ("False", "Active")),
    ],
)
def test_idle(workload: dict[str, Any], activity: Activity | None, reported: str | None, idle: tuple[str, str]) -> None:
    assert Used(workload, activity, reported).idle == idle


def test_the_status_says_since_when_and_when_that_was_checked_without_a_write_at_each_answer() -> None:
    book = Used(notebook(), Activity(AGO["long"]))
    assert book.status["activity"] == {"lastActivity": "2026-03-01T07:00:00Z", "checkedAt": "2026-03-01T12:00:00Z"}
    book.later(60)
    assert not book.plan()
    book.later(IDLE_WRITTEN_EVERY.total_seconds())
    assert book.plan().status["activity"]["checkedAt"] == "2026-03-01T12:06:00Z"
    book.activity = Activity(AGO["long"] + timedelta(minutes=1))
    assert book.plan().status["activity"]["lastActivity"] == "2026-03-01T07:01:00Z", "used once more, and idle again"
    book.activity = Activity(book.now)
    book.settle()
    assert book.idle == ("False", "Active")
    book.later(61)
    book.activity = Activity(book.now)
    assert not book.plan()
    book.later(WRITTEN_EVERY.total_seconds())
    assert book.plan().status["activity"]["lastActivity"] == "2026-03-01T12:07:01Z"


def test_a_controller_that_has_not_asked_yet_leaves_what_is_known_to_grow_old() -> None:
    book = Used(notebook(), Activity(AGO["long"]))
    book.activity = NOT_YET
    book.later(3600)
    assert not book.plan()
    book.report(book.now)
    book.settle()
    assert book.idle == ("False", "Active"), "a report counts at once"


def test_when_it_was_checked_is_when_it_was_asked_and_no_use_after_that_is_overlooked() -> None:
    book = Used(notebook(), Activity(AGO["just"], at=NOW))
    book.later(IDLE_AFTER.total_seconds())
    book.settle()
    assert book.idle == ("False", "Active"), "nobody asked since"
    book.activity = Activity(AGO["just"], at=book.now)
    book.settle()
    assert (book.idle, book.status["activity"]["checkedAt"]) == (("True", "NoActivity"), "2026-03-01T13:00:00Z")
    book.later(3600)
    assert not book.plan(), "it was not checked again"


def test_what_only_reports_tell_of_follows_them() -> None:
    board = Used(tensorboard(), None, text(AGO["just"]))
    again = board.plan().again_in
    assert again == pytest.approx(WRITTEN_EVERY.total_seconds())
    board.later(1801)
    board.settle()
    assert board.idle == ("True", "NoActivity")
    board.later(IDLE_WRITTEN_EVERY.total_seconds())
    assert board.plan().status["activity"]["checkedAt"] == "2026-03-01T12:35:01Z"
    board.report(board.now)
    board.settle()
    assert board.idle == ("False", "Active")
    board.later(IDLE_AFTER.total_seconds() - 30)
    assert board.plan().again_in == pytest.approx(30)


def test_a_clock_that_was_set_back_is_written_again() -> None:
    book = Used(notebook(), Activity(AGO["long"], at=NOW))
    book.now -= timedelta(hours=2)
    book.activity = Activity(AGO["long"], at=book.now)
    assert book.plan().status["activity"]["checkedAt"] == "2026-03-01T10:00:00Z"


def test_the_pod_of_one_with_faults_that_is_suspended_is_idle_no_more() -> None:
    book = Used(notebook(), Activity(AGO["long"]))
    book.obj["spec"] |= {"suspend": True, "template": {"spec": {"containers": []}}}
    book.settle()
    assert book.idle == ("Unknown", "NotRunning")
    assert "activity" not in book.status


def test_where_a_notebook_is_asked() -> None:
    asks = KINDS["Notebook"].control.asks
    assert asks is not None
    book = Used(notebook())
    assert asks(book.obj, book.children()) == Question("10.1.2.3", 8888, "/notebook/lab/lab/")
    book.pod("managed-notebook-lab-0")["spec"]["hostNetwork"] = True
    assert asks(book.obj, book.children()) is None, "its address is the node's, where others answer"
    for other in (notebook(type="rstudio"), notebook(suspend=True)):
        assert asks(other, Used(other).children()) is None


PART = {"last_activity": "2026-03-01T10:00:00.5Z", "execution_state": "idle"}
STATUS = {"last_activity": "2026-03-01T09:00:00Z"}
LATER = {"last_activity": "2026-03-01T11:00:00+00:00"}


@pytest.mark.parametrize(
    ("status", "kernels", "terminals", "last", "busy", "reason"),
    [
        (STATUS, [], None, 9, False, ""),
        (STATUS, [PART], [], 10, False, ""),
        (STATUS, [PART], [LATER], 11, False, ""),
        (STATUS, [PART | {"execution_state": "busy"}], [], 10, True, ""),
        (STATUS, [PART | {"execution_state": "starting"}], [], 10, False, ""),
        ({}, [], [], None, False, "NotJupyter"),
        (None, None, None, None, False, "NotJupyter"),
        ("<html>", [], [], None, False, "NotJupyter"),
        (STATUS, {"message": "no"}, [], None, False, "NotJupyter"),
        ({"last_activity": 5}, [None, 3, {"last_activity": "then"}], "x", None, False, "NotJupyter"),
    ],
)
def test_answers_of_jupyter(
    status: Any, kernels: Any, terminals: Any, last: int | None, busy: bool, reason: str
) -> None:
    found = read_jupyter(status, kernels, terminals)
    assert (found.last.hour if found.last else None, bool(found.busy), found.reason) == (last, busy, reason)


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=4
)


@given(st.lists(anything | st.dictionaries(st.sampled_from(["last_activity", "execution_state"]), anything)))
def test_no_answer_raises(parts: list[Any]) -> None:
    for answer in (*parts, parts):
        read_jupyter(answer, parts, parts)
