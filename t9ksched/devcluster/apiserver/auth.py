"""Authentication and authorization: bearer tokens, roles and their bindings, and the review objects that ask about
both.

The group `system:masters` may do everything; everyone else what stored Roles, ClusterRoles and their bindings grant.
Health, version and discovery are open as they are by default in a real cluster.
"""

import hmac
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver.status import StatusError, bad_value, details, invalid, qualified, unknown_path
from t9ksched.devcluster.apiserver.storage import Storage

Object = dict[str, Any]
MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_OPEN_TO_ALL: Final = ("/healthz", "/livez", "/readyz", "/version")
_OPEN_TO_USERS: Final = ("/api", "/apis", "/openapi", "/openapi/v2", "/openapi/v3", "/")
_SELF_REVIEWS: Final = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
_RBAC: Final = "rbac.authorization.k8s.io"
REVIEWS: Final = {
    "authentication.k8s.io": {"selfsubjectreviews": "SelfSubjectReview", "tokenreviews": "TokenReview"},
    "authorization.k8s.io": {
        "localsubjectaccessreviews": "LocalSubjectAccessReview",
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
        "subjectaccessreviews": "SubjectAccessReview",
    },
}


class User(msgspec.Struct, frozen=True):
    """An authenticated client."""

    name: str
    groups: tuple[str, ...] = ()

    def to_dict(self) -> Object:
        """As review objects show it."""
        return {"username": self.name, "groups": list(self.groups)}


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


class Attributes(msgspec.Struct, frozen=True):
    """What a request wants: a verb on a resource, or on a plain path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`pods/binding`, or `pods`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def unauthorized() -> StatusError:
    """The answer to a token that belongs to no user."""
    return StatusError(401, "Unauthorized", "Unauthorized")


class Authenticator:
    """Knows the users by their tokens; `accounts` knows those of service accounts."""

    def __init__(self, tokens: dict[str, User], accounts: Callable[[str], User | None] = lambda token: None) -> None:
        self._tokens = dict(tokens)
        self._accounts = accounts

    def identify(self, header: str | None) -> User:
        """The user of an Authorization header; anonymous without one. 401 for an unknown token."""
        if not header:
            return ANONYMOUS
        kind, _, token = header.partition(" ")
        user = self.find(token.strip()) if kind.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def find(self, token: str) -> User | None:
        """The user of a token."""
        for known, user in self._tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                return User(user.name, (*user.groups, AUTHENTICATED))
        account = self._accounts(token)
        return account and User(account.name, (*account.groups, AUTHENTICATED))


class Authorizer:
    """Decides by the stored roles."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def allows(self, user: User, wanted: Attributes) -> bool:
        """Whether the user may do it."""
        if MASTERS in user.groups:
            return True
        if wanted.path:
            return self._path_open(user, wanted)
        if wanted.resource in _SELF_REVIEWS and AUTHENTICATED in user.groups:
            return True
        return any(_grants(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def _path_open(self, user: User, wanted: Attributes) -> bool:
        path = wanted.path.rstrip("/") or "/"
        if path.startswith(_OPEN_TO_ALL):
            return True
        if AUTHENTICATED in user.groups and (
            path in _OPEN_TO_USERS or path.startswith(("/api/", "/apis/", "/openapi/"))
        ):
            return True
        return any(_grants_path(rule, wanted) for rule in self.rules(user, ""))

    def rules(self, user: User, namespace: str) -> Iterator[Object]:
        """The rules that hold for a user in a namespace (or cluster-wide, when that is empty)."""
        for entry in self._storage.collection(f"clusterrolebindings.{_RBAC}").entries.values():
            yield from self._bound(entry.object, user)
        if namespace:
            for entry in self._storage.collection(f"rolebindings.{_RBAC}").range(f"{namespace}/"):
                yield from self._bound(entry.object, user)

    def _bound(self, binding: Object, user: User) -> Iterator[Object]:
        if not any(_is_subject(subject, user) for subject in binding.get("subjects") or []):
            return
        role = binding.get("roleRef") or {}
        if role.get("kind") == "ClusterRole":
            found = self._storage.collection(f"clusterroles.{_RBAC}").entries.get(role.get("name", ""))
        else:
            key = f"{binding['metadata'].get('namespace')}/{role.get('name')}"
            found = self._storage.collection(f"roles.{_RBAC}").entries.get(key)
        if found is not None:
            yield from found.object.get("rules") or []

    def check(self, user: User, wanted: Attributes) -> None:
        """Refuse with 403 what the user may not do."""
        if self.allows(user, wanted):
            return
        if wanted.path:
            text = f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
            raise StatusError(403, "Forbidden", text, {})
        where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
        text = (
            f'User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" in API group'
            f' "{wanted.group}" {where}'
        )
        shown = qualified(wanted.resource, wanted.group) + (f' "{wanted.name}"' if wanted.name else "")
        body = details(wanted.name, wanted.group, wanted.resource)
        raise StatusError(403, "Forbidden", f"{shown} is forbidden: {text}", body)


def _is_subject(subject: Object, user: User) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace', '')}:{name}"
    return kind == "User" and name == user.name


def _has(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _grants(rule: Object, wanted: Attributes) -> bool:
    names = rule.get("resourceNames")
    resources = rule.get("resources")
    return (
        _has(rule.get("verbs"), wanted.verb)
        and _has(rule.get("apiGroups"), wanted.group)
        and (_has(resources, wanted.full_resource) or f"*/{wanted.subresource}" in (resources or ()))
        and (not names or wanted.name in names)
    )


def _grants_path(rule: Object, wanted: Attributes) -> bool:
    urls = rule.get("nonResourceURLs") or []
    fits = any(url == wanted.path or (url.endswith("*") and wanted.path.startswith(url[:-1])) for url in urls)
    return fits and _has(rule.get("verbs"), wanted.verb)


class Reviews:
    """Answers the review objects, which are asked by POST and never stored."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, group: str, resource: str, body: Object, user: User) -> Object:
        """The review with its status filled in."""
        kind = REVIEWS.get(group, {}).get(resource)
        if kind is None:
            raise unknown_path()
        spec = body.get("spec") or {}
        result: Object = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}}
        if resource == "selfsubjectreviews":
            return result | {"status": {"userInfo": user.to_dict()}}
        if resource == "tokenreviews":
            found = self._authenticator.find(spec.get("token", ""))
            if found is None:
                return result | {"spec": spec, "status": {"user": {}, "error": "invalid bearer token"}}
            return result | {"spec": spec, "status": {"authenticated": True, "user": found.to_dict()}}
        if resource == "selfsubjectrulesreviews":
            return result | {"spec": {}, "status": self._all_rules(user, spec.get("namespace", ""))}
        if not resource.startswith("self"):
            groups = tuple(spec.get("groups") or ())
            user = User(spec.get("user", ""), groups)
        allowed = self._authorizer.allows(user, _attributes(spec, group))
        return result | {"spec": spec, "status": {"allowed": allowed}}

    def _all_rules(self, user: User, namespace: str) -> Object:
        every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        found = [every] if MASTERS in user.groups else list(self._authorizer.rules(user, namespace))
        paths = [
            {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in found
            if rule.get("nonResourceURLs")
        ]
        return {
            "resourceRules": [rule for rule in found if rule.get("resources")],
            "nonResourceRules": paths,
            "incomplete": False,
        }


def _attributes(spec: Object, group: str) -> Attributes:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (about is None) == (path is None):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid("", group, "", [bad_value("spec.resourceAttributes", None, text)])
    if about is None:
        path = path or {}
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    return Attributes(
        about.get("verb", ""),
        about.get("group", ""),
        about.get("resource", ""),
        about.get("subresource", ""),
        about.get("namespace", ""),
        about.get("name", ""),
    )
