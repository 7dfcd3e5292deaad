"""ValidatingAdmissionPolicies: rules in CEL that a write of a user must keep.

A policy counts once a binding names it with the action Deny. Writes of the cluster's own parts are not judged.
Parameters and selectors are not known here: a policy with them is refused when it is made.
"""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

from t9ksched.devcluster.apiserver import cel
from t9ksched.devcluster.apiserver.auth import Attributes, Authorizer, User
from t9ksched.devcluster.apiserver.status import Cause, StatusError, bad_value, forbidden, required
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.apiserver.strategy import Strategy

Object = dict[str, Any]
GROUP: Final = "admissionregistration.k8s.io"
ACTING: ContextVar[User | None] = ContextVar("acting", default=None)
"""The user whose request is being answered; none where the cluster itself writes."""
_POLICIES: Final = f"validatingadmissionpolicies.{GROUP}"
_BINDINGS: Final = f"validatingadmissionpolicybindings.{GROUP}"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class PolicyStrategy(Strategy):
    """Policies and their bindings."""

    unconditional_update = False

    def default(self, obj: Object) -> None:
        if obj["kind"] != "ValidatingAdmissionPolicy":
            return
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        match = spec.setdefault("matchConstraints", {})
        match.setdefault("matchPolicy", "Equivalent")
        match.setdefault("namespaceSelector", {})
        match.setdefault("objectSelector", {})
        for rule in match.get("resourceRules") or ():
            rule.setdefault("scope", "*")

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        if obj["kind"] != "ValidatingAdmissionPolicy":
            fields = ("policyName", "validationActions")
            return [required(f"spec.{field}") for field in fields if not spec.get(field)]
        match = spec.get("matchConstraints") or {}
        causes = [] if match.get("resourceRules") else [required("spec.matchConstraints.resourceRules")]
        for field in ("paramKind", "auditAnnotations"):
            if spec.get(field):
                causes.append(bad_value(f"spec.{field}", spec[field], "not known to the dev cluster"))
        for field in ("namespaceSelector", "objectSelector", "excludeResourceRules"):
            if match.get(field):
                causes.append(bad_value(f"spec.matchConstraints.{field}", match[field], "not known to the dev cluster"))
        for part in ("matchConditions", "variables", "validations"):
            for number, each in enumerate(spec.get(part) or ()):
                try:
                    cel.parse(each["expression"])
                except cel.SyntaxFault as fault:
                    path = f"spec.{part}[{number}].expression"
                    causes.append(bad_value(path, each["expression"], f"compilation failed: {fault}"))
        return causes


class Policies:
    """Judges writes by the stored policies."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._authorizer = Authorizer(storage)

    def check(
        self,
        operation: str,
        resource: tuple[str, str, str],
        subresource: str,
        new: Object | None,
        old: Object | None,
    ) -> None:
        """Refuse a write of the acting user that a policy denies.

        Args:
            operation: CREATE, UPDATE or DELETE.
            resource: group, version and plural.
            subresource: empty for the object itself.
            new: the object as it would be stored, or a Binding or Scale; None when it is deleted.
            old: the object as it is stored; None when it is created.
        """
        user = ACTING.get()
        if user is None or not self._storage.collection(_BINDINGS).entries:
            return
        meta = (new or old or {}).get("metadata") or {}
        request = _request(operation, resource, subresource, meta, user)
        for binding, policy in self._bound():
            said = denial(policy, request, new, old, lambda wanted: self._authorizer.allows(user, wanted))
            if said is not None:
                reason, message = said
                text = (
                    f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding '{binding}' denied request:"
                    f" {message}"
                )
                error = forbidden(resource[2], resource[0], meta.get("name", ""), text)
                raise StatusError(_CODES.get(reason, 422), reason, error.message, error.details)

    def _bound(self) -> Iterator[tuple[str, Object]]:
        policies = self._storage.collection(_POLICIES).entries
        for entry in self._storage.collection(_BINDINGS).entries.values():
            spec = entry.object["spec"]
            found = policies.get(spec["policyName"])
            if found is not None and "Deny" in spec["validationActions"]:
                yield entry.object["metadata"]["name"], found.object


def denial(
    policy: Object,
    request: Object,
    new: Object | None,
    old: Object | None,
    allows: Callable[[Attributes], bool] = lambda wanted: False,
) -> tuple[str, str] | None:
    """Reason and message with which a policy denies a request; None when it lets it pass or is not about it. `allows`
    says what else the user of the request may do.
    """
    spec = policy["spec"]
    if not any(_about(rule, request) for rule in spec["matchConstraints"]["resourceRules"]):
        return None
    scope: Object = {"request": request, "object": new, "oldObject": old, "authorizer": _Authorizer(allows)}
    scope["variables"] = _Variables(spec.get("variables") or (), scope)
    strict = spec.get("failurePolicy", "Fail") == "Fail"
    for condition in spec.get("matchConditions") or ():
        try:
            if cel.parse(condition["expression"]).evaluate(scope) is not True:
                return None
        except cel.EvaluationError as error:
            return ("Forbidden", f"match condition {condition['name']}: {error}") if strict else None
    for rule in spec.get("validations") or ():
        try:
            passed = cel.parse(rule["expression"]).evaluate(scope) is True
        except cel.EvaluationError as error:
            if strict:
                return "Invalid", f"expression '{rule['expression']}' resulted in error: {error}"
            continue
        if not passed:
            return rule.get("reason") or "Invalid", rule.get("message") or f"failed expression: {rule['expression']}"
    return None


class _Authorizer(cel.Methods):
    """The variable `authorizer`, a check that it was made to by its methods, and the answer of one."""

    def __init__(self, allows: Callable[[Attributes], bool], wanted: dict[str, str] | None = None) -> None:
        self._allows = allows
        self._wanted = wanted or {}

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        if name == "allowed" and not arguments and "verb" in self._wanted:
            return self._allows(Attributes(**self._wanted))
        if name == "allowed" or len(arguments) != 1 or not isinstance(arguments[0], str):
            raise cel.EvaluationError("no such overload")
        return _Authorizer(self._allows, self._wanted | {"verb" if name == "check" else name: arguments[0]})


class _Variables(dict[str, Any]):
    """The variables of a policy, each evaluated when it is first asked for."""

    def __init__(self, variables: Any, scope: Object) -> None:
        super().__init__()
        self._expressions = {each["name"]: each["expression"] for each in variables}
        self._scope = scope

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        self[name] = value = cel.parse(self._expressions[name]).evaluate(self._scope)
        return value


def _request(operation: str, resource: tuple[str, str, str], subresource: str, meta: Object, user: User) -> Object:
    """The variable `request`; what is empty is not there, as in a real server."""
    group, version, plural = resource
    found = {
        "operation": operation,
        "resource": {"group": group, "version": version, "resource": plural},
        "subResource": subresource,
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "userInfo": user.to_dict(),
    }
    return {key: value for key, value in found.items() if value != ""}


def _about(rule: Object, request: Object) -> bool:
    resource, plain = request["resource"], request["resource"]["resource"]
    part = request.get("subResource", "")
    names = {f"{plain}/{part}", "*/*", f"{plain}/*", f"*/{part}"} if part else {plain, "*", "*/*"}
    scope = {"Namespaced": "namespace" in request, "Cluster": "namespace" not in request}
    return (
        bool({"*", resource["group"]} & set(rule["apiGroups"]))
        and bool({"*", resource["version"]} & set(rule["apiVersions"]))
        and bool({"*", request["operation"]} & set(rule["operations"]))
        and bool(names & set(rule["resources"]))
        and scope.get(rule.get("scope", "*"), True)
    )
