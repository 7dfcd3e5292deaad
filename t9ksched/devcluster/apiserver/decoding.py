"""Objects as requests send them: of the kind of the path, with the fields of that kind and the name of the path."""

from typing import Any

from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.options import WriteOptions, section
from t9ksched.devcluster.apiserver.schema import WrongType
from t9ksched.devcluster.apiserver.status import (
    Cause,
    StatusError,
    bad_request,
    bad_value,
    invalid,
)

Object = dict[str, Any]


def check_type(kind: Kind, body: Any) -> None:
    """Refuse an object that says it is of another kind or version than its path; built-in kinds may say nothing."""
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): it is no JSON object")
    section(body, "metadata")
    given, version = body.get("kind") or "", body.get("apiVersion") or ""
    if kind.custom is not None:
        if not given:
            raise bad_request("Object 'Kind' is missing in the body")
        if version != kind.api_version:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
            )
    elif (given and given != kind.kind) or (version and version != kind.api_version):
        shown = version or kind.api_version
        raise bad_request(f'{given} in version "{shown}" cannot be handled as a {kind.kind}')


def decode(kind: Kind, body: Object, opts: WriteOptions) -> Object:
    """The object of a request; unknown fields are refused, told or ignored, as `opts` say."""
    check_type(kind, body)
    if kind.custom is not None and body["kind"] != kind.kind:
        name = (body.get("metadata") or {}).get("name", "")
        raise invalid(body["kind"], kind.group, name, [bad_value("kind", body["kind"], f"must be {kind.kind}")])
    unknown: list[str] = []
    try:
        obj = kind.decode(body, unknown)
    except WrongType as error:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(text) from None
    report_unknown(unknown, opts, kind=kind)
    return obj


def set_defaults(kind: Kind, obj: Object) -> None:
    """Fill in what the kind fills in."""
    try:
        kind.strategy.default(obj)
    except WrongType as error:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(text) from None


def report_unknown(unknown: list[str], opts: WriteOptions, *, kind: Kind | None = None, patch_body: Any = None) -> None:
    """Refuse or tell of unknown fields; without a `kind` they came by the patch `patch_body`."""
    if not unknown or opts.validation == "Ignore":
        return
    faults = [f'unknown field "{path}"' for path in unknown]
    if opts.validation == "Warn":
        opts.warnings += faults
        return
    text = f"strict decoding error: {', '.join(faults)}"
    if kind is None:
        raise invalid("", "", "", [bad_value("patch", patch_body, text)])
    raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {text}')


def check_namespace(kind: Kind, namespace: str | None, meta: Object) -> None:
    """Refuse metadata of another namespace than the path's."""
    given = meta.get("namespace", "")
    if given and given != (namespace or ""):
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(text)


def check_name(kind: Kind, namespace: str | None, name: str, meta: Object) -> None:
    """Refuse metadata of another name or namespace than the path's."""
    if meta.get("name", "") != name:
        text = f"the name of the object ({meta.get('name', '')}) does not match the name on the URL ({name})"
        raise bad_request(text)
    check_namespace(kind, namespace if kind.namespaced else None, meta)


def invalid_object(kind: Kind, name: str, causes: list[Cause]) -> StatusError:
    """The refusal of an object of that kind, for these causes."""
    shared = kind.to_stored is not None and kind.custom is None
    return invalid(kind.kind, "" if shared else kind.group, name, causes)
