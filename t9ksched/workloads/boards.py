"""The TensorBoard that a training job asks for in `spec.tensorboardSpec`: an object of its own, which the job owns.

It is named `<job>-tensorboard`, follows the job's spec, and stays when the job has ended, until the job is deleted.
Faults of its spec are told by the TensorBoard itself, and do not keep the job from running.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from t9ksched.model.names import PLATFORM_API
from t9ksched.workloads.actions import Actions, Children, Object, name_of, uid_of
from t9ksched.workloads.fields import Field
from t9ksched.workloads.parts import Owner

KIND: Final = "TensorBoard"
FIELDS: Final = ("image", "logDir", "trainingLogFilesets", "resources", "scheduler")
"""Fields of its spec that the job decides; whether it is suspended is its own."""
_STATUS_FIELD: Final = "tensorboard"


def board_of(owner: Owner, spec: Field) -> tuple[Object, ...]:
    """The TensorBoard of the job with that spec; none if it asks for none."""
    asked = spec["tensorboardSpec"].value
    if not isinstance(asked, Mapping) or not asked:
        return ()
    wanted = {key: asked[key] for key in FIELDS if asked.get(key) is not None}
    meta = owner.metadata(f"{owner.name}-tensorboard")
    return ({"apiVersion": PLATFORM_API, "kind": KIND, "metadata": meta, "spec": wanted},)


def told(obj: Mapping[str, Any], children: Children, actions: Actions) -> Actions:
    """The actions with a status that says how the job's TensorBoard is."""
    status: Mapping[str, Any] = (obj.get("status") or {}) if actions.status is None else actions.status
    board = next((each for each in children.companions if each["kind"] == KIND), None)
    shown = None if board is None else _shown(board)
    if not status or status.get(_STATUS_FIELD) == shown:
        return actions
    new = {key: value for key, value in status.items() if key != _STATUS_FIELD}
    return replace(actions, status=new if shown is None else {**new, _STATUS_FIELD: shown})


def _shown(board: Object) -> Object:
    status = board.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    ready = (conditions.get("Ready") or {}).get("status") == "True"
    initialized = conditions.get("Initialized") or {}
    note = f"TensorBoard {name_of(board)} is {'ready' if ready else str(status.get('phase') or 'Pending')}"
    if initialized.get("status") == "False":
        note += f": {initialized.get('message') or initialized.get('reason') or ''}"
    return {
        "dependent": {
            "apiVersion": PLATFORM_API,
            "kind": KIND,
            "name": name_of(board),
            "namespace": board["metadata"].get("namespace", ""),
            "uid": uid_of(board),
        },
        "ready": ready,
        "reason": "DependentReady" if ready else "DependentNotReady",
        "note": note,
        **({"url": status["url"]} if status.get("url") else {}),
    }
