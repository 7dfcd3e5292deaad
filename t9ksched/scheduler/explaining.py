"""Why a job waits: the leader's reasons with their numbers, and who holds the room, as users see them."""

from collections import defaultdict

from t9ksched.scheduler.shapes import JobView, Json, identity, job_shape, phase, quantities
from t9ksched.scheduler.state import ClusterState


def explanation(view: JobView, state: ClusterState) -> Json:
    """Why a job waits, or that it does not, with the numbers and with who holds the room."""
    reasons = [reason for gang in view.gangs for reason in gang.reasons]
    now = phase(view)
    if now in ("Succeeded", "Failed"):
        verdict = "Finished"
    elif reasons or not view.gangs or any(not gang.complete() for gang in view.gangs):
        verdict = "Waiting"
    else:
        verdict = "Placed"
    return {
        "job": job_shape(view, state),
        "verdict": verdict,
        "reasons": [
            {
                "code": str(reason.code),
                "message": reason.message,
                "needs": quantities(reason.needs.items()),
                "has": quantities(reason.has.items()),
                "nodes": dict(reason.nodes),
            }
            for reason in reasons
        ],
        "holders": _holders(view, state) if verdict == "Waiting" else [],
        "unblocks": list(dict.fromkeys(text for reason in reasons for text in reason.unblocks)),
        "position": next((gang.position for gang in view.gangs if gang.position is not None), None),
    }


def _holders(view: JobView, state: ClusterState) -> list[Json]:
    """Who holds the cards this job asks for, on the nodes its queue may use; the largest first."""
    wanted = {card.resource for pod in view.pods if pod.pod_class for card in pod.pod_class.cards}
    queue = state.queues.get(view.gangs[0].queue) if view.gangs else None
    if not wanted or queue is None:
        return []
    selector = queue.spec.node_selector
    held: defaultdict[tuple[str | None, str], int] = defaultdict(int)
    for name, (_, facts) in state.node_objects.items():
        if selector is not None and not selector.matches(facts.labels):
            continue
        for charge in state.charges.on_node(name):
            cards = sum(amount for resource, amount in charge.pod_class.requests if resource in wanted)
            pod = state.pods.get(charge.uid)
            if cards and pod is not None:
                job = "/".join(identity(pod.gang)[1::2]) if pod.gang else f"Pod/{pod.name}"
                held[charge.queue or None, f"{pod.namespace}/{job}"] += cards
    ranked = sorted(held.items(), key=lambda item: (-item[1], item[0][1]))
    return [{"queue": queue, "job": job, "gpus": cards, "until": None} for (queue, job), cards in ranked[:20]]
