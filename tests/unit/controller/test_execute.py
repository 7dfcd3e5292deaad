"""What the executor does when the cluster does not do as it is told."""

import hashlib
from typing import Any

import pytest

from t9ksched.controller.execute import Executor, NameTaken, NotMade, Stale
from t9ksched.controller.sshkeys import KeyPair, SecretMaker
from t9ksched.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    Unprocessable,
)
from t9ksched.workloads.actions import NO_CHILDREN, Actions, Event, Object
from t9ksched.workloads.reconcile import expand, reconcile
from tests.unit.workloads.builders import NOW, experiment, mpi_v1, pytorch

JOB = pytorch()
POD, OTHER = expand(JOB).pods
GROUP = expand(JOB).podgroup or {}
MADE = {**POD, "metadata": {**POD["metadata"], "uid": "u1"}}


class Script:
    """A cluster that answers each verb with the next thing on its list, and says what it was asked."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str]] = []
        self.sent: list[Object] = []

    def _answer(self, verb: str, name: str, obj: Object) -> Object:
        self.asked.append((verb, name))
        self.sent.append(obj)
        answers = self.answers.get(verb) or []
        answer = answers.pop(0) if answers else obj
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def replace_status(self, res: Any, obj: Object) -> Object:
        return self._answer("status", obj["metadata"]["name"], obj)

    async def create(self, res: Any, obj: Object, namespace: str | None = None, *, dry_run: bool = False) -> Object:
        return self._answer("create", obj["metadata"]["name"], obj)

    async def get(self, res: Any, name: str, namespace: str | None = None) -> Object:
        return self._answer("get", name, {})

    async def replace(self, res: Any, obj: Object, *, dry_run: bool = False) -> Object:
        return self._answer("try" if dry_run else "replace", obj["metadata"]["name"], obj)

    async def delete(self, res: Any, name: str, namespace: str | None = None, *, uid: str | None = None) -> Object:
        return self._answer("delete", name, {"uid": uid})


class Notes:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, obj: Object, reason: str, message: str, *, type: str = "Normal") -> None:
        self.reasons.append(reason)


async def carry_out(script: Script, actions: Actions, job: Object = JOB) -> list[str]:
    notes = Notes()
    make = SecretMaker(lambda comment: KeyPair("PRIVATE", "PUBLIC"), lambda: "t9kt_TOKEN", "http://rest:8080/")
    executor = Executor(script, notes.record, make)  # type: ignore[arg-type]
    try:
        await executor.carry_out(job, actions)
    finally:
        script.notes = notes.reasons  # type: ignore[attr-defined]
    return notes.reasons


def test_error_classes_are_told_apart() -> None:
    assert issubclass(AlreadyExists, Conflict)


async def test_everything_in_its_order() -> None:
    script = Script()
    group = expand(JOB).podgroup
    assert group is not None
    actions = Actions({"phase": "Running"}, (MADE,), (POD, group), (Event("Start", "it runs"),))
    assert await carry_out(script, actions) == ["Start"]
    assert [verb for verb, _ in script.asked] == ["status", "delete", "create", "create"]
    assert [each.get("kind") for each in script.sent[2:]] == ["PodGroup", "Pod"], "pods come last"
    assert script.sent[0]["status"] == {"phase": "Running"}
    assert script.sent[1] == {"uid": "u1"}, "only the very pod that was seen"


@pytest.mark.parametrize("error", [Conflict(409), NotFound(404)])
async def test_nothing_is_done_on_a_status_that_could_not_be_written(error: ApiError) -> None:
    script = Script(status=[error])
    with pytest.raises(Stale):
        await carry_out(script, Actions({"phase": "Running"}, (MADE,), (POD,), (Event("Start", "it runs"),)))
    assert script.asked == [("status", "net")]
    assert script.notes == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [Conflict(409), NotFound(404)])
async def test_a_pod_that_is_gone_is_deleted_enough(error: ApiError) -> None:
    await carry_out(Script(delete=[error]), Actions(delete=(MADE,)))


async def test_updates_come_before_deletions_and_creations() -> None:
    script = Script()
    await carry_out(script, Actions({"phase": "Running"}, (MADE,), (POD,), update=(GROUP,)))
    assert [verb for verb, _ in script.asked] == ["status", "replace", "delete", "create"]


@pytest.mark.parametrize("error", [Conflict(409), NotFound(404)])
async def test_what_changed_meanwhile_is_not_overwritten(error: ApiError) -> None:
    script = Script(replace=[error])
    with pytest.raises(Stale):
        await carry_out(script, Actions(delete=(MADE,), update=(GROUP,)))
    assert [verb for verb, _ in script.asked] == ["replace"]


REFUSALS = [BadRequest(400, message="bad"), Forbidden(403, message="bad"), Unprocessable(422, message="bad")]


@pytest.mark.parametrize("error", REFUSALS)
@pytest.mark.parametrize("verb", ["try", "replace"])
async def test_an_update_that_is_refused_is_told_and_nothing_is_done_after_it(verb: str, error: ApiError) -> None:
    script = Script(**{verb: [error]})
    with pytest.raises(NotMade, match="PodGroup net: bad") as told:
        await carry_out(script, Actions(delete=(MADE,), update=(GROUP,), tried=(GROUP,)))
    assert told.value.reason == "FailedUpdate"
    assert script.notes == ["FailedUpdate"]  # type: ignore[attr-defined]
    assert [each for each, _ in script.asked] == ["try", "replace"][: 1 + (verb == "replace")]


async def test_a_webhook_that_knows_no_dry_runs_is_asked_by_the_update_itself() -> None:
    script = Script(**{"try": [BadRequest(400, message='admission webhook "a.b" does not support dry run')]})
    await carry_out(script, Actions(update=(GROUP,), tried=(GROUP,)))
    assert [verb for verb, _ in script.asked] == ["try", "replace"]


async def test_our_own_pod_is_as_good_as_created() -> None:
    script = Script(create=[AlreadyExists(409)], get=[MADE])
    await carry_out(script, Actions(create=(POD,)))


async def test_a_strangers_pod_is_told() -> None:
    stranger = {**POD, "metadata": {"name": "net-worker-0", "uid": "x"}}
    script = Script(create=[AlreadyExists(409)], get=[stranger])
    with pytest.raises(NameTaken, match="net-worker-0 exists already"):
        await carry_out(script, Actions(create=(POD,)))
    assert script.notes == ["NameTaken"]  # type: ignore[attr-defined]


async def test_a_pod_that_just_went_is_looked_at_again() -> None:
    with pytest.raises(Stale):
        await carry_out(Script(create=[AlreadyExists(409)], get=[NotFound(404)]), Actions(create=(POD,)))


async def test_a_refusal_is_told() -> None:
    script = Script(create=[Forbidden(403, message="quota")])
    with pytest.raises(Forbidden):
        await carry_out(script, Actions(create=(POD,)))
    assert script.notes == ["FailedCreate"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [BadRequest(400, message="bad"), Unprocessable(422, message="bad")])
async def test_what_the_server_cannot_make_is_told_in_the_status_too(error: ApiError) -> None:
    script = Script(create=[error])
    with pytest.raises(NotMade, match=f"Pod {POD['metadata']['name']}: bad"):
        await carry_out(script, Actions(create=(POD,)))
    assert script.notes == ["FailedCreate"]  # type: ignore[attr-defined]


async def test_one_failure_does_not_keep_the_others() -> None:
    script = Script(create=[ServerError(500)])
    with pytest.raises(ServerError):
        await carry_out(script, Actions(create=(POD, OTHER), events=(Event("Created", ""),)))
    assert script.asked == [("create", "net-worker-0"), ("create", "net-worker-1")]
    assert script.notes == []  # type: ignore[attr-defined]


MPI = mpi_v1()
CONFIG = {**expand(MPI).configmaps[0], "kind": "ConfigMap"}
MADE_CONFIG = {**CONFIG, "metadata": {**CONFIG["metadata"], "uid": "c1", "resourceVersion": "7"}}
KEYS = expand(MPI).secrets[0]
WORKER = expand(MPI).pods[1]


async def test_keys_are_made_with_their_configmap_and_put_on_record_before_any_pod() -> None:
    script = Script(create=[MADE_CONFIG])
    await carry_out(script, Actions(create=(CONFIG, KEYS, WORKER)), MPI)
    assert script.asked == [
        ("create", "walk-mpi"),
        ("create", "walk-uid-walk-ssh"),
        ("replace", "walk-mpi"),
        ("create", "walk-worker-0"),
    ], "nothing is read"
    secret, record = script.sent[1:3]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "c1"
    assert secret["stringData"] == {"ssh-privatekey": "PRIVATE", "ssh-publickey": "PUBLIC"}
    assert record["metadata"]["annotations"] == {"batch.tensorstack.dev/ssh-secret": "walk-uid-walk-ssh"}
    assert record["metadata"]["resourceVersion"] == "7"


async def test_a_strangers_secret_is_told_without_reading_it() -> None:
    script = Script(create=[MADE_CONFIG, AlreadyExists(409)])
    with pytest.raises(NameTaken, match="Secret walk-uid-walk-ssh exists already"):
        await carry_out(script, Actions(create=(CONFIG, KEYS, WORKER)), MPI)
    assert script.notes == ["NameTaken"]  # type: ignore[attr-defined]
    assert [verb for verb, _ in script.asked] == ["create", "create"], "no pod"


async def test_keys_are_not_made_for_a_configmap_of_an_earlier_try() -> None:
    script = Script(create=[AlreadyExists(409)], get=[MADE_CONFIG])
    with pytest.raises(Stale, match="walk-mpi was made by an earlier try"):
        await carry_out(script, Actions(create=(CONFIG, KEYS, WORKER)), MPI)
    assert ("create", "walk-uid-walk-ssh") not in script.asked


async def test_a_refused_secret_is_told() -> None:
    script = Script(create=[MADE_CONFIG, Forbidden(403, message="quota")])
    with pytest.raises(Forbidden):
        await carry_out(script, Actions(create=(CONFIG, KEYS, WORKER)), MPI)
    assert script.notes == ["FailedCreate"]  # type: ignore[attr-defined]


async def test_a_trials_token_is_in_its_secret_alone_and_its_hash_on_record() -> None:
    tune = experiment(trialConcurrency=1)
    begun = reconcile({**tune, "status": reconcile(tune, NO_CHILDREN, NOW).status}, NO_CHILDREN, NOW)
    holder, secret = begun.create
    made = {**holder, "metadata": {**holder["metadata"], "uid": "c1", "resourceVersion": "7"}}
    script = Script(create=[made])
    await carry_out(script, Actions(create=(holder, secret)), tune)
    sent, record = script.sent[1:3]
    url = "http://rest:8080/apis/v1/workloads/lab/pytorchtrainingjob/hpo-0/results"
    assert sent["stringData"] == {"token": "t9kt_TOKEN", "url": url}
    assert sent["metadata"]["ownerReferences"][0]["uid"] == "c1"
    digest = hashlib.sha256(b"t9kt_TOKEN").hexdigest()
    assert record["metadata"]["annotations"]["tensorstack.dev/results-token-sha256"] == digest
    assert "t9kt_TOKEN" not in str(record)
    assert "TOKEN" not in repr(SecretMaker(token=lambda: "t9kt_TOKEN"))
