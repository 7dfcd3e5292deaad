"""Values have the fields that the service documents, both clients the same methods, and notebooks show no markup of
users.
"""

import inspect
from typing import Any

import msgspec
import pytest

import t9ksched.client
from t9ksched.api.schemas import accounts, jobs, nodes, notifications, queues, reports, simulations
from t9ksched.client import AsyncClient, Client, Event, Job, Listed, Node, Queue, models
from t9ksched.client.notifications import AsyncNotifications, Notifications
from t9ksched.client.running import Words

NOT_OF_REST = {"Job": {"deletedAt", "held", "warnings"}, "Queue": {"access"}}
"""Fields of some answers alone."""
SHAPES = {
    "Job": jobs.Job,
    "Explanation": jobs.Explanation,
    "Submitted": jobs.Submitted,
    "Queue": queues.Queue,
    "Node": nodes.Node,
    "Simulation": simulations.Simulation,
    "WhoAmI": accounts.WhoAmI,
    "Notification": notifications.NotificationShape,
    "NewNotification": notifications.NewNotification,
    "Pod": jobs.JobPodShape,
    "Event": reports.StreamedEvent,
}
PARTS = {
    "Members": jobs.Members,
    "TimeLimit": jobs.TimeLimitShape,
    "PlannedStart": jobs.PlannedStartShape,
    "ExpectedStart": jobs.ExpectedStartShape,
    "QueueMembers": queues.MembersShape,
    "SimulatedJob": simulations.SimulatedJob,
}


@pytest.mark.parametrize("name", SHAPES)
def test_fields_are_those_of_rest(name: str) -> None:
    documented = {field.alias or key for key, field in SHAPES[name].model_fields.items()}
    ours = {field.encode_name for field in msgspec.structs.fields(getattr(models, name))}
    assert ours - NOT_OF_REST.get(name, set()) == documented


@pytest.mark.parametrize("name", PARTS)
def test_fields_of_parts_are_those_of_rest(name: str) -> None:
    ours = {field.encode_name for field in msgspec.structs.fields(getattr(models, name))}
    assert ours == set(PARTS[name].model_fields)


def methods(client: type) -> dict[str, inspect.Signature]:
    found = {name: one for name, one in vars(client).items() if not name.startswith("_") and callable(one)}
    return {name: inspect.signature(one) for name, one in found.items()}


@pytest.mark.parametrize("pair", [(Client, AsyncClient), (Notifications, AsyncNotifications)])
def test_both_clients_are_used_alike(pair: tuple[type, type]) -> None:
    one, other = methods(pair[0]), methods(pair[1])
    assert one.keys() == other.keys()
    for name, signature in one.items():
        assert list(signature.parameters.values()) == list(other[name].parameters.values()), name
        if name not in ("events", "logs"):
            assert signature.return_annotation == other[name].return_annotation, name
            assert inspect.iscoroutinefunction(getattr(pair[1], name)), name
        if name != "close":
            assert inspect.getdoc(getattr(pair[0], name)) == inspect.getdoc(getattr(pair[1], name)), name


def test_an_array_is_asked_for_in_the_words_of_a_job() -> None:
    words = inspect.signature(Client.run).parameters
    assert list(Words.__annotations__) == [name for name in words if name not in ("self", "command")]


def test_all_that_is_public_is_there() -> None:
    for name in t9ksched.client.__all__:
        assert getattr(t9ksched.client, name).__name__ == name
    assert set(dir(t9ksched.client)) == set(t9ksched.client.__all__)
    with pytest.raises(AttributeError):
        _ = t9ksched.client.nothing  # type: ignore[attr-defined]


def job(**fields: Any) -> Job:
    base = {"namespace": "default", "kind": "Job", "name": "fit", "uid": "u"}
    return msgspec.convert(base | fields, Job)


def test_what_is_not_known_is_left_out() -> None:
    found = job(newer=1, submittedAt="2026-01-31T20:00:00Z", members={"min": 2, "later": 3})
    assert found.submitted_at is not None
    assert (found.submitted_at.isoformat(), found.members.min) == ("2026-01-31T20:00:00+00:00", 2)
    assert found.to_dict()["submittedAt"] == "2026-01-31T20:00:00Z"
    assert (str(found), found.finished, job(phase="Succeeded").succeeded) == ("Job/fit", False, True)


def test_notebooks_show_tables() -> None:
    evil = "<img src=x onerror=alert(1)>"
    shown = Listed([job(name=evil, reason={"code": "Behind", "message": "a & b"}, gpus=4)])._repr_html_()
    assert "<img" not in shown
    assert "&lt;img" in shown
    assert "<td>Behind: a &amp; b</td>" in shown
    assert shown.count("<tr>") == 2
    assert Listed()._repr_html_() == "<p>none</p>"
    one = job(labels={"team": evil}, submittedAt="2026-01-31T20:00:00Z")._repr_html_()
    assert "<img" not in one
    assert "<tr><th>submitted at</th><td>2026-01-31 20:00:00 UTC</td></tr>" in one
    assert "deleted at" not in one
    submitted = models.Submitted(items=[job()])._repr_html_()
    assert submitted.count("<table>") == 2


def test_lists_of_other_things() -> None:
    queue = Queue(
        name="a", spec={"priority": 5, "quota": {"requests": {"nvidia.com/gpu": "8"}}}, status={"free": {"x": 1}}
    )
    node = Node(name="n", gpus=[{"index": 0, "holders": [{"pod": "p"}]}, {"index": 1, "holders": []}])
    event = msgspec.convert({"id": 3, "type": "started", "about": "job", "at": "2026-01-31T20:00:00Z"}, Event)
    assert "<td>5</td><td>nvidia.com/gpu=8</td><td>x=1</td>" in Listed([queue])._repr_html_()
    assert "<td>2</td><td>1</td>" in Listed([node])._repr_html_()
    assert "<td>started</td>" in Listed([event])._repr_html_()
