"""What the server offers: groups, versions and resources, in the old form and in the aggregated one."""

from typing import Any, Final

from t9ksched.devcluster.apiserver.auth import REVIEWS
from t9ksched.devcluster.apiserver.kinds import STATUS_VERBS, Kind, Registry
from t9ksched.devcluster.apiserver.status import PlainNotFound, unknown_path

Object = dict[str, Any]
_SUBRESOURCE: Final = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "exec": ("", "v1", "PodExecOptions", ("create", "get")),
    "log": ("", "", "Pod", ("get",)),
    "finalize": ("", "", "", ("update",)),
    "scale": ("autoscaling", "v1", "Scale", STATUS_VERBS),
    "status": ("", "", "", STATUS_VERBS),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
VERSION: Final = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0-t9ksched",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}


def subresources(kind: Kind) -> tuple[str, ...]:
    """The subresources of a kind, those of pods that are not plain writes included."""
    if kind.plural == "pods" and not kind.group:
        return ("binding", "eviction", "exec", "log", "status")
    return kind.subresources


def _entry(kind: Kind) -> Object:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


def _sub_entry(kind: Kind, name: str) -> Object:
    group, version, shown, verbs = _SUBRESOURCE[name]
    entry: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    if group:
        entry |= {"group": group, "version": version}
    return entry | {"kind": shown or kind.kind, "verbs": list(verbs)}


def _virtual(group: str) -> list[Object]:
    found = [
        {
            "name": plural,
            "singularName": kind.lower(),
            "namespaced": plural.startswith("local"),
            "kind": kind,
            "verbs": ["create"],
        }
        for plural, kind in REVIEWS.get(group, {}).items()
    ]
    if not group:
        found.append(
            {"name": "bindings", "singularName": "binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]}
        )
    return found


class Discovery:
    """Answers discovery requests from the table of kinds."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def _groups(self) -> dict[str, list[str]]:
        groups = {name: versions for name, versions in self._registry.groups().items() if name}
        for name in REVIEWS:
            groups.setdefault(name, ["v1"])
        return groups

    def _group(self, name: str, versions: list[str]) -> Object:
        shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        return {"name": name, "versions": shown, "preferredVersion": shown[0]}

    def legacy(self) -> Object:
        """`/api`."""
        address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}

    def groups(self) -> Object:
        """`/apis`."""
        shown = [self._group(name, versions) for name, versions in self._groups().items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}

    def group(self, name: str) -> Object:
        """`/apis/<group>`; a plain 404 for an unknown one."""
        versions = self._groups().get(name)
        if versions is None:
            raise PlainNotFound
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name, versions)}

    def known_group(self, name: str) -> bool:
        """Whether the server has a group of that name."""
        return name in self._groups()

    def resources(self, group: str, version: str) -> Object:
        """`/api/v1` and `/apis/<group>/<version>`."""
        kinds = [kind for kind in self._registry.all() if (kind.group, kind.version) == (group, version)]
        found = _virtual(group) if version == "v1" else []
        for kind in kinds:
            found.append(_entry(kind))
            found += [_sub_entry(kind, name) for name in subresources(kind)]
        if not found:
            if group and not self.known_group(group):
                raise PlainNotFound
            raise unknown_path()
        if kinds and kinds[0].custom is None:
            found.sort(key=lambda entry: entry["name"])
        body: Object = {"kind": "APIResourceList"}
        if group:
            body["apiVersion"] = "v1"
        return body | {"groupVersion": f"{group}/{version}" if group else version, "resources": found}

    def aggregated(self, *, legacy: bool) -> Object:
        """`/api` or `/apis` in one document, as newer clients ask for it."""
        groups = {"": ["v1"]} if legacy else self._groups()
        items = []
        for name, versions in groups.items():
            shown = [
                {
                    "version": version,
                    "resources": self._aggregate(self.resources(name, version)["resources"]),
                    "freshness": "Current",
                }
                for version in versions
            ]
            items.append({"metadata": {"name": name} if name else {}, "versions": shown})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}

    def _aggregate(self, entries: list[Object]) -> list[Object]:
        found: dict[str, Object] = {}
        for entry in entries:
            plural, _, sub = entry["name"].partition("/")
            kind = {"group": entry.get("group", ""), "version": entry.get("version", ""), "kind": entry["kind"]}
            if sub:
                shown = {"subresource": sub, "responseKind": kind, "verbs": entry["verbs"]}
                found[plural].setdefault("subresources", []).append(shown)
                continue
            found[plural] = {
                "resource": plural,
                "responseKind": kind,
                "scope": "Namespaced" if entry["namespaced"] else "Cluster",
                "singularResource": entry["singularName"],
                "verbs": entry["verbs"],
            } | {key: entry[key] for key in ("shortNames", "categories") if key in entry}
        return list(found.values())
