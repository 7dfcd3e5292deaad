"""The grant to everybody who signs in: a RoleBinding in each namespace that is not the system's."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.auth import MASTERS, Attributes, Authenticator, Authorizer, Reviews, User
from t9ksched.devcluster.apiserver.crd import Definitions
from t9ksched.devcluster.apiserver.gc import GarbageCollector
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.policies import ACTING
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.apiserver.users import ROLE, open_to_users
from t9ksched.devcluster.cluster import install

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
POLICIES = "admissionregistration.k8s.io"
EVERYBODY = {"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}
MALLORY = User("mallory", ("system:authenticated",))
VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@pytest.fixture
def api() -> Api:
    """A cluster with the namespaces and kinds of every dev cluster, and one namespace of users."""
    made = Api(Storage(), Registry())
    Definitions(made)
    install(made, [])
    create(made, "namespaces", "before")
    return made


def create(api: Api, plural: str, name: str, namespace: str | None = None, **fields: Any) -> Object:
    kind = api.kind(RBAC if "role" in plural else "", "v1", plural)
    return api.create(kind, namespace, {"metadata": {"name": name}, **fields}).object


def opened(api: Api, user: User = MALLORY) -> set[str]:
    """The namespaces in which a user may do something, with "" for all at once."""
    authorizer = Authorizer(api.storage)
    resources = (("", "configmaps"), ("", "pods"), ("batch", "jobs"), ("scheduler.tensorstack.dev", "podgroups"))
    return {
        namespace
        for namespace in ("", *api.storage.collection("namespaces").entries)
        for verb in VERBS
        for group, resource in resources
        if authorizer.allows(user, Attributes(verb, group, resource, namespace=namespace))
    }


def test_all_namespaces_but_the_systems(api: Api) -> None:
    create(api, "namespaces", "kube-flannel")
    assert opened(api) == set()
    open_to_users(api)
    assert opened(api) == {"default", "before"}
    create(api, "namespaces", "after")
    create(api, "namespaces", "kube-public-2")
    assert opened(api) == {"default", "before", "after"}
    assert opened(api, User("a")) == set(), "who did not sign in"
    assert opened(api, User("a", (MASTERS,))) == {"", *api.storage.collection("namespaces").entries}


def test_the_list_of_a_users_rules_says_so_too(api: Api) -> None:
    """As `kubectl auth can-i --list` asks."""
    open_to_users(api)
    reviews = Reviews(Authenticator({}), Authorizer(api.storage))

    def rules(namespace: str) -> list[Object]:
        body = {"spec": {"namespace": namespace}}
        answer = reviews.answer("authorization.k8s.io", "selfsubjectrulesreviews", body, MALLORY)
        found: list[Object] = answer["status"]["resourceRules"]
        return found

    assert rules("default")
    assert [rules(namespace) for namespace in ("kube-system", "kube-public", "kube-node-lease", "t9k-system")] == [
        []
    ] * 4


def test_the_grant_of_all_namespaces_is_taken_back_and_no_other(api: Api) -> None:
    create(api, "clusterroles", ROLE, rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE}
    create(api, "clusterrolebindings", ROLE, roleRef=ref, subjects=[EVERYBODY])
    operator = {"apiGroup": RBAC, "kind": "User", "name": "operator"}
    create(api, "clusterrolebindings", "operators", roleRef=ref, subjects=[operator])
    assert "kube-system" in opened(api)
    open_to_users(api)
    assert opened(api) == {"default", "before"}
    assert opened(api, User("operator")) == {"", *api.storage.collection("namespaces").entries}
    (role,) = (
        entry.object for entry in api.storage.collection(f"clusterroles.{RBAC}").entries.values() if entry.key == ROLE
    )
    assert role["rules"][0]["verbs"] == ["list"], "what an administrator made of it stays"


def test_a_grant_by_an_administrator_in_a_system_namespace_counts(api: Api) -> None:
    open_to_users(api)
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE}
    create(
        api,
        "rolebindings",
        "helpers",
        "t9k-system",
        roleRef=ref,
        subjects=[{"apiGroup": RBAC, "kind": "User", "name": "mallory"}],
    )
    assert opened(api) == {"default", "before", "t9k-system"}


def test_an_administrator_closes_a_namespace(api: Api) -> None:
    open_to_users(api)
    bindings = api.kind(RBAC, "v1", "rolebindings")
    api.edit(bindings, api.get(bindings, "before", ROLE), lambda binding: binding.update(subjects=[]))
    namespaces = api.kind("", "v1", "namespaces")
    api.edit(namespaces, api.get(namespaces, None, "before"), lambda made: made["metadata"].update(labels={"a": "b"}))
    assert opened(api) == {"default"}
    api.observers.clear()
    open_to_users(api)  # as the next start does
    assert opened(api) == {"default"}


def test_a_binding_that_an_administrator_deletes_stays_deleted(api: Api) -> None:
    open_to_users(api)
    create(api, "namespaces", "after")
    bindings, namespaces = api.kind(RBAC, "v1", "rolebindings"), api.kind("", "v1", "namespaces")
    for name in ("before", "after"):
        api.delete(bindings, name, ROLE)
    api.edit(namespaces, api.get(namespaces, None, "after"), lambda made: made["metadata"].update(labels={"a": "b"}))
    assert opened(api) == {"default"}
    api.observers.clear()
    open_to_users(api)  # as the next start does
    assert opened(api) == {"default"}


def test_a_namespace_made_by_a_user_under_policies_is_opened(api: Api) -> None:
    """A policy is about who made the namespace; the binding is the cluster's own write."""
    open_to_users(api)
    rule = {"apiGroups": [RBAC], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["rolebindings"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    policies = api.kind(POLICIES, "v1", "validatingadmissionpolicies")
    api.create(policies, None, {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    bindings = api.kind(POLICIES, "v1", "validatingadmissionpolicybindings")
    api.create(bindings, None, {"metadata": {"name": "p"}, "spec": bound})
    acting = ACTING.set(MALLORY)
    try:
        create(api, "namespaces", "after")
        assert ACTING.get() is MALLORY
    finally:
        ACTING.reset(acting)
    assert opened(api) == {"default", "before", "after"}


async def test_a_namespace_that_is_deleted_goes_whole(api: Api) -> None:
    collector = GarbageCollector(api)
    open_to_users(api)
    api.delete(api.kind("", "v1", "namespaces"), None, "before")
    while collector.work():
        pass
    assert "before" not in api.storage.collection("namespaces").entries
    assert not any(key.startswith("before/") for key in api.storage.collection(f"rolebindings.{RBAC}").entries)


def test_a_role_of_a_former_release_is_brought_up_to_date_and_an_administrators_is_not(api: Api) -> None:
    def may_read_logs() -> bool:
        wanted = Attributes("get", "", "pods", "log", namespace="default")
        return Authorizer(api.storage).allows(MALLORY, wanted)

    open_to_users(api)
    assert may_read_logs()
    kind = api.kind(RBAC, "v1", "clusterroles")
    entry = api.collection(kind).entries[ROLE]
    mine = [rule for rule in entry.object["rules"] if rule["resources"] != ["pods/log"]]
    api.edit(kind, entry, lambda role: role.update(rules=mine))
    assert not may_read_logs()
    open_to_users(api)
    assert may_read_logs()
    api.edit(kind, api.collection(kind).entries[ROLE], lambda role: role.update(rules=mine[:1]))
    open_to_users(api)
    assert not may_read_logs()
