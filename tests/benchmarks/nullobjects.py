"""What the null server keeps, and how it answers over HTTP/1.1: it asks nothing, and answers a binding with 201 and the
watch event a real server would send.

Just enough of the API for `bind.py`: create, get, list, patch and delete of any kind, binding, and watches. It checks
no right, no version and no rule, and speaks HTTP/1.1 by hand. Pods get the defaults, the managed fields and the
projected token volume that a real server writes, so that their events have the usual size (about 3 KB).
"""

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import msgspec

Object = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_NOW = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
"""When objects are made: as on a real server, what comes is new, and collects no room (`starvation`)."""
_DONE = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
_HEAD = (
    b"HTTP/1.1 %d %s\r\nAudit-Id: 2f1c6f3e-7a60-4f3b-9a51-0d3f3f0c8d11\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 0f6b1a52-1f0e-4c83-8d60-5c3c1f3b7a10\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 5c1d9a3f-6f0e-4f1e-8c9e-2f4b6c7d8e90\r\n"
    b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n"
)
_STREAM = (
    b"HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_REASONS = {200: b"OK", 201: b"Created", 404: b"Not Found", 409: b"Conflict"}


class Objects:
    """Every object by the path of its collection, and who watches which path."""

    def __init__(self) -> None:
        self.version = 1
        self.kept: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.watches: defaultdict[str, dict[asyncio.Transport, str]] = defaultdict(dict)

    def write(self, kind: str, obj: Object, type_: str) -> None:
        """Keep the object at a new version and tell who watches."""
        self.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.version)
        where = (meta.get("namespace", ""), meta["name"])
        if type_ == "DELETED":
            self.kept[kind].pop(where, None)
        else:
            self.kept[kind][where] = obj
        if self.watches[kind]:
            line = b'{"type":"%s","object":%s}\n' % (type_.encode(), _encode(obj))
            chunk = b"%x\r\n%s\r\n" % (len(line), line)
            for stream, namespace in self.watches[kind].items():
                if namespace in ("", where[0]) and not stream.is_closing():
                    stream.write(chunk)


def usual_pod(pod: Object) -> None:
    """Add to a new pod what a real server adds."""
    spec = pod["spec"]
    token = "kube-api-access-x7k2p"
    mount = {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for container in spec["containers"]:
        container |= {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "volumeMounts": [mount],
        }
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": ca},
        {"downwardAPI": {"items": [field]}},
    ]
    away = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    spec |= {
        "volumes": [{"name": token, "projected": {"sources": sources, "defaultMode": 420}}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready"} | away,
            {"key": "node.kubernetes.io/unreachable"} | away,
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    fields: Object = {"f:metadata": {"f:labels": {".": {}} | {f"f:{key}": {} for key in pod["metadata"]["labels"]}}}
    fields["f:spec"] = {f"f:{key}": {} for key in spec if key != "containers"} | {
        "f:containers": {'k:{"name":"main"}': {".": {}} | {f"f:{key}": {} for key in spec["containers"][0]}}
    }
    manager = {"manager": "t9ksched", "operation": "Update", "apiVersion": "v1", "time": _NOW}
    pod["metadata"]["managedFields"] = [manager | {"fieldsType": "FieldsV1", "fieldsV1": fields}]
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}


class Connection(asyncio.Protocol):
    """One client's connection: requests one after the other."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._buffer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for streams in self._objects.watches.values():
            streams.pop(self._transport, None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            at = head.lower().find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + size:
                return
            body, self._buffer = self._buffer[end + 4 : end + 4 + size], self._buffer[end + 4 + size :]
            method, target = head.split(b" ", 2)[:2]
            self.answer(method.decode(), target.decode(), body)

    def send(self, status: int, body: bytes) -> None:
        self._transport.write(_HEAD % (status, _REASONS[status], len(body)) + body)

    def answer(self, method: str, target: str, body: bytes) -> None:
        parts = urlsplit(target)
        steps = parts.path.strip("/").split("/")
        root = 2 if steps[0] == "api" else 3
        namespace = ""
        if steps[root] == "namespaces" and len(steps) > root + 2:
            namespace, root = steps[root + 1], root + 2
        kind, name = "/".join(steps[root : root + 1]), (steps[root + 1 : root + 2] or [""])[0]
        sub = (steps[root + 2 : root + 3] or [""])[0]
        if method == "POST" and sub == "binding":
            return self._bind(namespace, name, _decode(body))
        if method == "GET" and not name:
            return self._read(kind, namespace, parts.query)
        there = self._objects.kept[kind]
        if method == "DELETE" and not name:
            for obj in [obj for (where, _), obj in there.items() if namespace in ("", where)]:
                self._objects.write(kind, obj, "DELETED")
            return self.send(200, _DONE)
        if method == "POST":
            obj = _decode(body)
            meta = obj["metadata"]
            if namespace:
                meta["namespace"] = namespace
            if (namespace, meta["name"]) in there:
                return self.send(409, b'{"kind":"Status","reason":"AlreadyExists","code":409}')
            meta |= {"uid": str(uuid4()), "creationTimestamp": _NOW}
            if kind == "pods":
                usual_pod(obj)
            if kind == "customresourcedefinitions":
                obj["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
            if kind != "events":
                self._objects.write(kind, obj, "ADDED")
            return self.send(201, _encode(obj))
        obj = there.get((namespace, name))
        if obj is None:
            return self.send(404, b'{"kind":"Status","reason":"NotFound","code":404}')
        if method == "PUT":
            sent = _decode(body)
            obj = obj | ({"status": sent.get("status")} if sub == "status" else sent)
        elif method == "PATCH":
            obj = _merged(obj, _decode(body))
        if method != "GET":
            self._objects.write(kind, obj, "DELETED" if method == "DELETE" else "MODIFIED")
        return self.send(200, _encode(obj))

    def _bind(self, namespace: str, name: str, binding: Object) -> None:
        pod = self._objects.kept["pods"].get((namespace, name))
        if pod is None:
            return self.send(404, b'{"kind":"Status","reason":"NotFound","code":404}')
        if pod["spec"].get("nodeName") or pod["metadata"]["uid"] != binding["metadata"]["uid"]:
            return self.send(409, b'{"kind":"Status","reason":"Conflict","code":409}')
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["metadata"]["annotations"] = binding["metadata"].get("annotations", {})
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": _NOW}
        pod["status"]["conditions"] = [scheduled]
        self.send(201, _DONE)
        return self._objects.write("pods", pod, "MODIFIED")

    def _read(self, kind: str, namespace: str, query: str) -> None:
        options = parse_qs(query)
        if "watch" in options:
            self._objects.watches[kind][self._transport] = namespace
            self._transport.write(_STREAM)
            if "sendInitialEvents" in options:
                self._begin(kind, namespace)
            return
        chosen = [obj for (where, _), obj in self._objects.kept[kind].items() if namespace in ("", where)]
        if "fieldSelector" in options:
            chosen = [obj for obj in chosen if f"metadata.name={obj['metadata']['name']}" in options["fieldSelector"]]
        meta = {"resourceVersion": str(self._objects.version)}
        self.send(200, _encode({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": chosen}))

    def _begin(self, kind: str, namespace: str) -> None:
        """What there is, as the beginning of a watch, and the bookmark that ends it."""
        there = [obj for (where, _), obj in self._objects.kept[kind].items() if namespace in ("", where)]
        end = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": str(self._objects.version)}
        for type_, obj in [*(("ADDED", obj) for obj in there), ("BOOKMARK", {"metadata": end})]:
            line = _encode({"type": type_, "object": obj}) + b"\n"
            self._transport.write(b"%x\r\n%s\r\n" % (len(line), line))


def _merged(into: Object, patch: Object) -> Object:
    out = dict(into)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            inner = out.get(key)
            out[key] = _merged(inner if isinstance(inner, dict) else {}, value) if isinstance(value, dict) else value
    return out
