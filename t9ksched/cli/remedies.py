"""What to do next after a refusal, in the words of the command line.

The service answers programs too, so some of its remedies speak of requests, and some answers have none. Commands for
the same are named here, by the code of the answer and by the collection that was asked.
"""

from typing import Final

ANY: Final = ""

_REMEDIES: Final[dict[tuple[str, str], str]] = {
    ("Unauthenticated", ANY): "Pass a token with --token or T9KSCHED_TOKEN; an administrator makes one: "
    "t9ksched token create",
    ("Forbidden", ANY): "Ask an administrator, or use a token that may do this.",
    ("QueueNotFound", ANY): "See which queues exist: t9ksched queues list",
    (
        "QueueNotPermitted",
        ANY,
    ): "Use another queue (t9ksched queues list shows yours), or ask an administrator to make you a member.",
    ("QueueClosed", ANY): "Use another queue, or ask an administrator to run: t9ksched queues open NAME",
    ("NotFound", "nodes"): "See which nodes there are: t9ksched nodes",
    ("NotFound", "workloads"): "See which jobs there are: t9ksched jobs",
    ("NotFound", "reservations"): "See which reservations there are: t9ksched reservations list",
    ("NotFound", "notifications"): "See which there are: t9ksched notify list",
    ("NotFound", "tokens"): "See which tokens there are: t9ksched token list",
    ("AlreadyExists", "queues"): "Choose another name, or change that one: t9ksched queues edit NAME",
    ("AlreadyExists", "reservations"): "Choose another name, or change that one: t9ksched reservations edit NAME",
    ("AlreadyExists", "tokens"): "Choose another name, or end that one: t9ksched token revoke NAME",
    ("AlreadyExists", "workloads"): "Choose another name, or cancel the other first: t9ksched cancel KIND/NAME",
    ("Conflict", "queues"): "Drain it and wait until it is empty, or say what becomes of its jobs: --jobs cancel|keep",
    ("PreconditionFailed", ANY): "It was changed meanwhile; look again and repeat.",
    ("Unavailable", ANY): "Wait a moment and repeat; `t9ksched up` (or the scheduler's pod) must be running.",
}

_REST_WORDS: Final = ("GET /", "POST /", "PUT /", "/apis/", "/docs", "jobs=", "`Authorization:", "Retry-After")


def remedy(code: str, path: str, given: str) -> str:
    """What to do about an answer with this `code` to a request for `path`; `given` is the service's own remedy.

    The service knows the single case, so its words come first unless they speak of requests. Empty when there is none.
    """
    if given and not speaks_of_requests(given):
        return given
    return _REMEDIES.get((code, _collection(path))) or _REMEDIES.get((code, ANY), "")


def speaks_of_requests(text: str) -> bool:
    """Whether a text names an HTTP request, which a person at a terminal does not send."""
    return any(word in text for word in _REST_WORDS)


def _collection(path: str) -> str:
    """`queues` for `/apis/v1/admin/queues/a100/members`."""
    parts = [part for part in path.split("/") if part not in ("", "apis", "v1", "admin")]
    return parts[0] if parts else ANY
