"""A scheduler's state beside one that is built from nothing out of the objects as they are and of what stands in SQL.

Every field of every record is compared, but those that are named here with the reason: so a new field is compared too.
"""

import copy
from dataclasses import replace
from typing import Any

from msgspec import structs

from t9ksched.engine.nodes import LARGEST
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import FREE_PREFIX
from tests.property.stateobjects import ENDED

OF_PODS = {
    "gang": "compared by name",
    "counted": "follows the group and the phase",
    "outside": "held against the rule itself",
    **dict.fromkeys(("pod_class", "unbound", "to_bind"), "held against the claims themselves"),
    "accepted": "the last gate lets in in the order in which it is asked",
    "unpermitted": "the last gate says it when it is asked",
    "retry_at": "refusals are remembered by one process",
    "refusals": "refusals are remembered by one process",
    "labels": "compared as the API server has them",
    "evicted": "a condition that is taken back is remembered",
    "placed_in": "in which PodGroup it was placed, of those of one name, is history",
    "worth": "what it gave back is history",
}
OF_ENDED = OF_PODS | {"exclusive": "claims of a pod that ended are not followed"}
OF_GROUPS = {
    "members": "compared by UID",
    "acceptance": "held against what is on record",
    "control": "taken over when a view is made",
    "agreed": "the last gate settles it when it is asked",
    "kept": "who paid before a PodGroup was made anew is history",
    "status": "our own word, read once",
    "kept_out": "said when a view is made",
    **dict.fromkeys(
        ("ran", "began_with", "leaving", "scheduled", "evicted", "displaced", "lost", "fell", "first_bound"), "history"
    ),
    "admitted": "history",
    **dict.fromkeys(
        ("reasons", "counted", "waits_by", "position", "avoid", "unrecorded", "evicts_from", "reservation_seen"),
        "told by views and plans",
    ),
    **dict.fromkeys(("lasts", "user"), "noted when a view is made, while starts are planned"),
    **dict.fromkeys(("unpermitted", "judged", "turned_away", "noted", "nameless"), "verdicts of the last gate"),
    **dict.fromkeys(("start_after", "start_seen", "asked", "asked_seen"), "asked for when a view is made"),
    **dict.fromkeys(("stale", "changes", "_snapshot"), "what was built from the others"),
    "spec": "what was last readable stays; held against the object itself",
}


def rebuilt(world: Any) -> ClusterState:
    """A state that hears of everything once, as it is; of a pod also as it was when it was seen first."""
    live: ClusterState = world.state
    state = ClusterState()
    state.set_queues(live.queues.values())
    state.permit(dict(world.members))
    state.direct(dict(world.controls))
    state.owners.unread = {"StatefulSet"}
    state.outage.unread = live.outage.unread
    state.refills.kinds = live.refills.kinds
    state.cards.restore(world.rows, complete=not live.cards.adopting)
    world.state = state
    try:
        world._send_space()
        world.tell_storage()
        for uid in world.owners:
            world._send_owner(uid)
    finally:
        world.state = live
    for node in world.nodes.values():
        state.upsert_node(decode_node(node))
    for group in world.groups.values():
        state.upsert_group(decoder(PodGroupObject)(group))
    for uid in live.pods:
        _pod(world, state, uid)
    for acceptance in live.acceptances.values():
        state.accept(acceptance)
    state.settle()
    return state


def _pod(world: Any, state: ClusterState, uid: str) -> None:
    raw, seen, record = world.pods[uid], world.seen[uid], world.state.pods[uid]
    first = copy.deepcopy(raw)
    known = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "ownerReferences")
    first["metadata"] = {key: seen[key] for key in known if key in seen}
    labels = first["metadata"].setdefault("labels", {}) | {}
    for key, value in (("group-name", seen["group"]), ("role", seen["role"]), ("queue", seen["asked"])):
        labels.pop(f"scheduler.tensorstack.dev/{key}", None)
        labels |= {f"scheduler.tensorstack.dev/{key}": value} if value else {}
    first["metadata"]["labels"] = labels
    if record.ours:
        first["spec"].pop("nodeName", None)
        first["status"] = {"phase": "Pending"}
    state.upsert_pod(decode_pod(first))
    if node := raw["spec"].get("nodeName"):
        first["spec"]["nodeName"] = node
        state.upsert_pod(decode_pod(first))
    made, charge = state.pods[uid], world.state.charges.get(uid)
    decided = uid in world.assumed and charge is not None
    if decided:
        made.assumed = charge.node
    state.upsert_pod(decode_pod(raw))
    if decided:
        made.role = seen["role"]
        state.charges.charge(uid, charge.node, charge.pod_class, charge.queue, charge.cards, sure=charge.sure)
        state.changes.gang_changed(made.gang)


def compare(world: Any) -> None:
    """Assert that the state is what one that is built from nothing is."""
    live, fresh = world.state, rebuilt(world)
    assert live.pods.keys() == fresh.pods.keys()
    for uid, record in live.pods.items():
        _same(record, fresh.pods[uid], OF_ENDED if record.finished else OF_PODS, uid)
        if record.outside is None and fresh.pods[uid].outside is None:
            assert _name(record.gang) == _name(fresh.pods[uid].gang), uid
        _charges(live, fresh, uid)
    mine = {_name(gang): gang for gang in live.gangs.values() if gang.kept_out is None}
    theirs = {_name(gang): gang for gang in fresh.gangs.values()}
    assert mine.keys() == theirs.keys()
    for name, gang in mine.items():
        if gang.uid:
            _same(gang, theirs[name], OF_GROUPS, name)
        if not (live.membership.strangers(gang) or fresh.membership.strangers(theirs[name])):
            assert gang.members.keys() == theirs[name].members.keys()
    assert live._pods_by_name == fresh._pods_by_name
    assert live.jobs.keys() == fresh.jobs.keys()
    for uid, job in live.jobs.items():
        for field in structs.fields(job):
            assert getattr(job, field.name) == getattr(fresh.jobs[uid], field.name), (uid, field.name)
    assert live.put_there == fresh.put_there
    assert live.node_objects.keys() == fresh.node_objects.keys()
    for name in live.node_objects:
        assert _facts(live, name) == _facts(fresh, name), name
        assert live.nodes.used(name) == fresh.nodes.used(name), name
        assert live.nodes.cards_used(name) == fresh.nodes.cards_used(name), name
    assert live.namespaces.labels == fresh.namespaces.labels
    assert _owned(live) == _owned(fresh)
    assert {uid for uid in live.cards.drifting if uid in live.pods} == live.cards.drifting.keys()


def _same(one: Any, other: Any, besides: dict[str, str], what: Any) -> None:
    for field in one.__struct_fields__ if hasattr(one, "__struct_fields__") else vars(one):
        if field not in besides:
            assert getattr(one, field) == getattr(other, field), (what, field)


def _name(gang: GangRecord | None) -> tuple[str, str, str, bool] | None:
    return None if gang is None else (gang.namespace, gang.name, gang.uid, gang.virtual)


def _charges(live: ClusterState, fresh: ClusterState, uid: str) -> None:
    one, other = live.charges.get(uid), fresh.charges.get(uid)
    assert (one is None) == (other is None), uid
    if one is None or other is None:
        return
    assert (one.node, one.applied) == (other.node, other.applied), uid
    record: PodRecord = live.pods[uid]
    if record.ours and record.phase not in ENDED:
        assert (one.cards, one.sure) == (other.cards, other.sure), uid


def _facts(state: ClusterState, name: str) -> Any:
    """What a node is; a limit on volumes that some node once had is remembered as no limit, and free volumes are still
    counted of a class that is gone, which no claim asks for.
    """
    facts, classes = state.node_objects[name][1], state.storage._claims.classes
    asked = {FREE_PREFIX + kind.metadata.name for kind in classes.values() if kind.lies_ready}
    amounts = {key: amount for key, amount in facts.allocatable.items() if amount < LARGEST}
    return replace(
        facts, allocatable={key: had for key, had in amounts.items() if key in asked or not key.startswith(FREE_PREFIX)}
    )


def _owned(state: ClusterState) -> dict[str, set[Any]]:
    found = {
        uid: {_name(gang) for gang in gangs if gang.uid and not gang.kept_out} for uid, gangs in state._by_owner.items()
    }
    return {uid: those for uid, those in found.items() if those}
