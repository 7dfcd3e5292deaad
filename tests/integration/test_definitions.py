"""What an API server refuses of definitions and of objects that are written over."""

from typing import Any

import pytest

from t9ksched.kube.errors import Forbidden, NotFound, Unprocessable
from t9ksched.kube.resources import CRDS, CSINODES
from t9ksched.model.api_resource import Resource
from tests.integration.world import World

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)

APPROVAL = "api-approved.kubernetes.io"

pytestmark = pytest.mark.cluster


def definition(group: str, rule: str) -> dict[str, Any]:
    """A definition whose status keeps what it does not name, with a rule about the whole object."""
    fields = {
        "spec": {"type": "object", "properties": {"queue": {"type": "string"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    schema = {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]}
    return {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.mark.parametrize("rule", ["has(self.status.queue)", "self.spec.priority > 0", "oldSelf.spec.owner == ''"])
async def test_a_rule_that_reads_what_the_schema_does_not_name_is_refused(world: World, rule: str) -> None:
    with pytest.raises(Unprocessable, match="undefined field"):
        await world.client.create(CRDS, definition(f"{world.run}.example.com", rule))
    with pytest.raises(NotFound):
        await world.client.get(CRDS, f"things.{world.run}.example.com")


async def test_a_rule_about_what_the_schema_names_is_taken(world: World) -> None:
    rule = "has(self.status) || self.metadata.name.startsWith('a') || self.spec.queue == oldSelf.spec.queue"
    await world.define(definition(f"{world.run}.example.com", rule))


async def test_nothing_is_made_of_a_definition_that_is_being_deleted(world: World) -> None:
    """An object that somebody keeps keeps the definition."""
    group = f"{world.run}.example.com"
    things = Resource(group, "v1", "things", "Thing")
    await world.define(definition(group, "true"))
    meta = {"namespace": world.namespace, "finalizers": ["example.com/kept"]}
    thing = {"apiVersion": things.api_version, "kind": "Thing"}
    await world.client.create(things, {**thing, "metadata": {"name": "kept", **meta}})
    await world.client.delete(CRDS, f"things.{group}")
    await world.until(CRDS, f"things.{group}", lambda crd: "Terminating" in str(crd["status"]["conditions"]))
    text = f'things.{group} "late" is forbidden: create not allowed while custom resource definition is terminating'
    with pytest.raises(Forbidden, match=text):
        await world.client.create(things, {**thing, "metadata": {"name": "late", **meta}})
    await world.until(things, "kept", lambda thing: thing["metadata"].get("deletionTimestamp"))
    await world.client.patch(things, "kept", world.namespace, {"metadata": {"finalizers": None}})
    await world.gone(CRDS, f"things.{group}")


@pytest.mark.parametrize(
    ("note", "told"),
    [
        (None, 'Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see'),
        ("", 'Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see'),
        ("yes", 'Invalid value: "yes": .* with either a URL or a reason starting with "unapproved", see'),
        ("http:/x", 'Invalid value: "http:/x": protected groups must have approval annotation'),
    ],
)
@pytest.mark.parametrize("owner", ["k8s.io", "kubernetes.io"])
async def test_a_kind_in_a_group_of_kubernetes_needs_an_approval(
    world: World, owner: str, note: str | None, told: str
) -> None:
    made = definition(f"{world.run}.{owner}", "true")
    if note is not None:
        made["metadata"]["annotations"] = {APPROVAL: note}
    with pytest.raises(Unprocessable, match=told):
        await world.client.create(CRDS, made)


@pytest.mark.parametrize(
    ("note", "status", "reason", "message"),
    [
        ("unapproved, a test", "False", "UnapprovedAnnotation", 'not approved: "unapproved, a test"'),
        ("https://example.com/1", "True", "ApprovedAnnotation", "approved in https://example.com/1"),
    ],
)
async def test_an_approval_is_told_and_kept(world: World, note: str, status: str, reason: str, message: str) -> None:
    made = definition(f"{world.run}.k8s.io", "true")
    made["metadata"]["annotations"] = {APPROVAL: note}
    name = (await world.create_shared(CRDS, made))["metadata"]["name"]

    def told(crd: dict[str, Any]) -> list[tuple[str, ...]]:
        conditions = crd.get("status", {}).get("conditions") or ()
        return [
            (one["status"], one["reason"], one["message"])
            for one in conditions
            if one["type"] == "KubernetesAPIApprovalPolicyConformant"
        ]

    assert told(await world.until(CRDS, name, told)) == [(status, reason, message)]
    for without in (None, {APPROVAL: "no"}):
        with pytest.raises(Unprocessable, match="protected groups must have approval annotation"):
            await world.client.patch(CRDS, name, None, {"metadata": {"annotations": without}})


async def test_a_group_of_its_community_needs_no_approval(world: World) -> None:
    await world.define(definition(f"{world.run}.x-k8s.io", "true"))


@pytest.mark.parametrize("kind", ["policy", "csinode"])
async def test_some_kinds_are_written_over_with_their_version_only(world: World, kind: str) -> None:
    spec: dict[str, Any] = {"drivers": []}
    if kind == "policy":
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["events"]}]
        spec = {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "true"}],
        }
    res = POLICIES if kind == "policy" else CSINODES
    made = await world.create_shared(res, {"metadata": {"name": f"{world.run}-one"}, "spec": spec})
    version = made["metadata"].pop("resourceVersion")
    with pytest.raises(Unprocessable, match="must be specified for an update"):
        await world.client.replace(res, made)
    made["metadata"] |= {"resourceVersion": version, "labels": {"a": "b"}}
    assert (await world.client.replace(res, made))["metadata"]["labels"] == {"a": "b"}
