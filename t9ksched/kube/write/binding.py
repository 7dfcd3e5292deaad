"""Binding a pod: one protocol, each the same small state machine; a dialect of cards (`dialects/`) may have its own.

prepare → bind, and undo when a step after a successful prepare fails. `run` drives it and ends in one frozen `Outcome`
that says what is true now: Bound, Gone, Conflict, Refused, Throttled or Busy (nothing happened, try again) or Unknown.
An answer that leaves the result open is resolved by reading the pod, never guessed. `Direct`, for most nodes, has
nothing to prepare: one POST carries node, UID precondition and the card annotations together. Where the node answers
a binding, `confirm` looks whether it has, as often as the caller likes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from t9ksched.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import PODS

MAX_KEY_NAME = 63
"""Characters in the name part of an annotation key. A Binding is not checked for it by the server, and a pod with a
longer key can never be patched again, by kubelet neither."""

_ATTEMPTS = 2
_NOTHING: Mapping[str, Any] = MappingProxyType({})
Agrees = Callable[[str, str, str], bool]
"""Whether an annotation of this key that says the first text means the same as the second."""


def _literally(key: str, said: str, written: str) -> bool:
    return said == written


class Binding(msgspec.Struct, frozen=True):
    """One decision to carry out: this very pod (`uid`) to this node, its containers on these card indices.

    `cards` holds the containers that get cards. `annotations` are written with it and stay, which tells this binding
    from another: one whose annotations mean the same (`agrees`) gives the same cards. `once` are written too, and
    others change them afterwards. `claims` are the volume claims that must be bound for this node first
    (`kube.volumes`); `protocol` has the steps where one request is not enough. The caller must know that the node
    exists and may take the pod: the server checks neither.
    """

    namespace: str
    name: str
    uid: str
    node: str
    cards: Mapping[str, tuple[int, ...]] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    once: Mapping[str, str] = _NOTHING
    claims: tuple[str, ...] = ()
    protocol: Protocol | None = None
    agrees: Agrees = _literally

    def shows(self, there: Mapping[str, str]) -> bool:
        """Whether annotations of a pod say what this binding writes and what stays."""
        return all(key in there and self.agrees(key, there[key], written) for key, written in self.annotations.items())

    def body(self) -> Object:
        """The Binding object to POST."""
        metadata: Object = {"name": self.name, "namespace": self.namespace, "uid": self.uid}
        if self.annotations or self.once:
            metadata["annotations"] = {**self.annotations, **self.once} if self.once else dict(self.annotations)
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }


class Bound(msgspec.Struct, frozen=True):
    """The pod is on its node with its cards. `found` when reading showed it: an earlier attempt had succeeded."""

    found: bool = False


class Gone(msgspec.Struct, frozen=True):
    """The pod of that UID does not exist any more; `replaced` when another pod has its name now."""

    replaced: bool = False


Cause = Literal["bound", "gated", "terminating", "unclear"]


class Refusal(msgspec.Struct, frozen=True):
    """What a refusal's numbers are: the server's status (0: refused here, before sending), its word and sentence."""

    status: int
    reason: str
    message: str


class Conflicted(msgspec.Struct, frozen=True):
    """The pod is in no state to be bound; `node` is where it is, for cause "bound"."""

    cause: Cause
    message: str
    node: str = ""


class Refused(msgspec.Struct, frozen=True):
    """The server will never take this binding; nothing happened."""

    refusal: Refusal


class Throttled(msgspec.Struct, frozen=True):
    """The server did not take it now; nothing happened. `retry_after` in seconds if it named a time."""

    retry_after: float | None
    message: str


class Busy(msgspec.Struct, frozen=True):
    """The node takes no binding now, because it is busy with another; nothing happened."""

    message: str


class Unknown(msgspec.Struct, frozen=True):
    """It may have happened, and reading did not tell: keep the room charged and `resolve` again later."""

    message: str


Outcome = Bound | Gone | Conflicted | Refused | Throttled | Busy | Unknown


class AgentAnswer(Enum):
    """What a node says of a pod that is bound to it: `OVER` if nothing is to be said any more, because the pod ended,
    or is gone.
    """

    PENDING = "pending"
    GIVEN = "given"
    FAILED = "failed"
    OVER = "over"


class Phase(Enum):
    """The steps of a binding protocol."""

    PREPARE = "prepare"
    BIND = "bind"
    UNDO = "undo"
    DONE = "done"


class Protocol:
    """The steps of a binding. Each may raise ApiError; the base does nothing before, one POST, and nothing after."""

    name = "direct"
    evicts_failed = False
    """Whether a pod that did not get its cards runs on without them unless it is evicted."""

    async def prepare(self, port: ClusterPort, binding: Binding) -> Outcome | None:
        """What must be written before; None to go on, an outcome to stop with nothing to undo."""
        return None

    async def bind(self, port: ClusterPort, binding: Binding, *, sent: bool = False) -> Outcome:
        """The one write that binds; `sent` as in `resolve`."""
        return await post(port, binding, sent=sent)

    async def confirm(self, port: ClusterPort, binding: Binding) -> AgentAnswer:
        """Look once what the node says, where a protocol has an answer."""
        return AgentAnswer.GIVEN

    async def undo(self, port: ClusterPort, binding: Binding) -> None:
        """Take back what `prepare` wrote, as well as possible: an ApiError here does not change the outcome."""


Direct = Protocol
"""Nothing to prepare or confirm: the binding itself carries everything."""


def check(binding: Binding) -> Refused | None:
    """Refuse what the server would accept although it harms the pod."""
    for key in (*binding.annotations, *binding.once) if binding.once else binding.annotations:
        name = key.rpartition("/")[2]
        if not name or len(name) > MAX_KEY_NAME:
            sentence = (
                f"annotation key {key!r} has a name part of {len(name)} characters, allowed are 1 to {MAX_KEY_NAME}; "
                "give the container that asks for cards a shorter name"
            )
            return Refused(Refusal(0, "AnnotationKeyTooLong", sentence))
    if not (binding.node and binding.uid):
        return Refused(Refusal(0, "Incomplete", "a binding needs the node's name and the pod's UID"))
    return None


def run(
    port: ClusterPort, binding: Binding, protocol: Protocol | None = None, *, sent: bool = False
) -> Coroutine[Any, Any, Outcome]:
    """Carry out `binding` by `protocol`, else by its own. Raises nothing of the API: every answer is an outcome.

    `sent` as in `resolve`.
    """
    protocol = protocol or binding.protocol
    refused = check(binding)
    if protocol is None and refused is None:  # what most bindings are
        return post(port, binding, sent=sent)
    return _steps(port, binding, protocol or Direct(), refused, sent=sent)


async def _steps(
    port: ClusterPort, binding: Binding, protocol: Protocol, outcome: Outcome | None, *, sent: bool
) -> Outcome:
    phase = Phase.DONE if outcome else Phase.PREPARE
    while phase is not Phase.DONE:
        try:
            match phase:
                case Phase.PREPARE:
                    outcome = await protocol.prepare(port, binding)
                    phase = Phase.DONE if outcome else Phase.BIND
                case Phase.BIND:
                    outcome = await protocol.bind(port, binding, sent=sent)
                    # An unknown result must not be undone: the pod may be bound and need what was prepared.
                    phase = Phase.DONE if isinstance(outcome, Bound | Unknown) else Phase.UNDO
                case Phase.UNDO:
                    phase = Phase.DONE
                    await protocol.undo(port, binding)
        except ApiError as error:
            if phase is Phase.PREPARE:
                outcome = outcome_of(error)
                phase = Phase.UNDO
            elif phase is Phase.BIND:
                outcome = Unknown(str(error)) if error.unknown else outcome_of(error)
                phase = Phase.DONE if error.unknown else Phase.UNDO
    assert outcome is not None
    return outcome


async def post(port: ClusterPort, binding: Binding, *, sent: bool = False) -> Outcome:
    """POST the binding and make sure of its result; an open result is read and, if nothing happened, sent again.

    Sending again is harmless: at most one of the two is carried out, the other is refused as already bound. `sent` as
    in `resolve`.
    """
    body = binding.body()
    message = ""
    for _ in range(_ATTEMPTS):
        try:
            await port.bind(binding.namespace, binding.name, body)
            return Bound()
        except ApiError as error:
            if not error.unknown and not isinstance(error, Conflict):
                return outcome_of(error)
            message = str(error)
            sent = sent or error.unknown
            state = await resolve(port, binding, message, sent=sent)
            if state is not None:
                return state
            if isinstance(error, Conflict):  # refused, yet the pod looks free: its state changed in between
                return Conflicted("unclear", message)
            if isinstance(error, ServerError) and error.status == 500:  # the server is done with it, and did nothing
                return Throttled(error.retry_after, message)
    return Unknown(message)


async def resolve(port: ClusterPort, binding: Binding, message: str = "", *, sent: bool = False) -> Outcome | None:
    """Read the pod and say what is true of it; None when it is there and could still be bound.

    `Unknown` when it cannot be read now. `message` goes into the outcome. `sent` says that this binding was sent before
    and its answer was lost: the pod is on its node because of it then, whatever users did to annotations since. A pod
    that is on the node without that, and has other annotations, was bound by another, to cards that are not known.
    """
    try:
        pod = await port.get(PODS, binding.name, binding.namespace)
    except NotFound:
        return Gone()
    except ApiError as error:
        return Unknown(f"{message}; reading the pod: {error}" if message else f"reading the pod: {error}")
    metadata = pod.get("metadata", {})
    spec = pod.get("spec", {})
    if metadata.get("uid") != binding.uid:
        return Gone(replaced=True)
    node = spec.get("nodeName") or ""
    if node:
        ours = sent or binding.shows(metadata.get("annotations") or {})
        return Bound(found=True) if ours and node == binding.node else Conflicted("bound", message, node)
    if metadata.get("deletionTimestamp"):
        return Conflicted("terminating", message)
    if spec.get("schedulingGates"):
        return Conflicted("gated", message)
    return None


def outcome_of(error: ApiError) -> Outcome:
    """The outcome of an answer that needs no reading; a result left open is Unknown."""
    if isinstance(error, NotFound):
        return Gone()
    if isinstance(error, TooManyRequests):
        return Throttled(error.retry_after, str(error))
    if error.unknown:
        return Unknown(str(error))
    if isinstance(error, Unreachable | ServerError):
        return Throttled(error.retry_after, str(error))
    if isinstance(error, Conflict):
        return Conflicted("unclear", str(error))
    return Refused(Refusal(error.status, error.reason, error.message))
