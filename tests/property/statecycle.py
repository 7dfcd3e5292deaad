"""A scheduler in a small cluster: it starts with what stands in SQL, decides, and hears what became of it."""

from typing import Any

from t9ksched.engine.planner import Assignment, plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.scheduler.state.card_rows import row_of
from tests.feeds import taken
from tests.property.stateobjects import REFUSED
from tests.property.stateseldom import Seldom
from tests.property.viewmodel import Views


def is_ours(raw: dict[str, Any]) -> bool:
    """Whether a pod is for this scheduler, and was not put on its node by its creator."""
    scheduled = any(one["type"] == "PodScheduled" for one in raw["status"].get("conditions", ()))
    return raw["spec"]["schedulerName"] == names.SCHEDULER_NAME and (scheduled or not raw["spec"].get("nodeName"))


class Cycles(Seldom):
    """Restarts and cycles; `views` holds what each view must show."""

    def __init__(self, seed: int, name: str = "state") -> None:
        super().__init__(seed, name)
        self.views = Views(self)

    def restart(self) -> None:
        """Another scheduler knows what stands in SQL, and hears of the objects in any order."""
        rng = self.rng
        self.state = self._new()
        self.views = Views(self)
        self.state.outage.unread = unread = rng.random() < 0.3
        early = rng.random() < 0.4
        if early:
            self._read()
        self.tell_all()
        if not early:
            self._read()
        if unread and rng.random() < 0.7:
            self.state.outage.read()
        self.state.cards.adopt(self.now)

    def _read(self) -> None:
        """What stands in SQL is read, before or after the objects are seen."""
        parts = [
            lambda: [self.state.accept(one) for one in self.acceptances.values()],
            lambda: self.state.cards.restore(self.rows, complete=True),
            self._read_places,
        ]
        self.rng.shuffle(parts)
        for part in parts:
            part()

    def _read_places(self) -> None:
        self.restored = dict(self.rows)
        for uid in self.rows.keys() & self.seen.keys():
            if (node := self.pods[uid]["spec"].get("nodeName")) and is_ours(self.pods[uid]):
                self._placed(uid, node)
        self.state.places.restore(self.rows)

    def due(self) -> bool:
        """Whether the loop would look now."""
        at = self.state.next_retry()
        return self.woken or (at is not None and at <= self.now)

    def decide(self) -> list[Assignment]:
        """What a plan would start now."""
        running = self.evictable.running(self.now)
        self.views.before(self.now)
        view = self.state.view(self.now, running)
        self.views.after(view, self.now)
        return list(plan(view, Policy(), self.now).assignments)

    def cycle(self) -> None:
        """The loop looks: what it decides is charged, and bound, refused or left open."""
        self.woken, self.back = False, set()
        self.promises_end()
        self.views.taken(self.now, self.state.turned_away(self.now))
        assert self.state.reservations.sweep(self.now) == self.views.swept(self.now)
        decided = self.decide()
        overtaken = False
        for gang in dict.fromkeys(one.gang for one in decided):
            mine = [one for one in decided if one.gang == gang]
            if self.rng.random() < (0.1 if len(mine) == 1 else 0.3):
                self._overtaken(gang, mine)
                overtaken = True
                continue
            nodes = self.state.nodes
            same = not overtaken and all(nodes.generation[nodes.row(one.node)] == one.generation for one in mine)
            done = self.state.assume(gang, mine, self.now)
            assert done == mine or not (done or same), "what was just planned fits, unless a node changed since"
            if not done:
                continue
            for one in done:
                self.assumed[one.pod] = one.node
                self.views.holds.pop(one.pod, None)  # a decision uses the place that was kept
                self.seen[one.pod] |= self.says(one.pod)
            if self.state.gangs_by_uid[gang].complete():
                self.promises.pop(gang, None)
            for one in done:
                self._carry_out(one)
        self.sql()

    def _overtaken(self, gang: str, mine: list[Assignment]) -> None:
        """Before it is taken up, a part of a decision does not hold any more."""
        late = self.rng.choice(mine[-2:])
        how = self.rng.choice(("gone", "taken", "another"))
        if how == "gone":
            self._forget(late.pod)
            self.state.remove_pod(late.pod)
        elif how == "another":
            self.nodes[late.node]["metadata"]["uid"] = f"{late.node}-{self._number()}"
            self.state.upsert_node(decode_node(self.nodes[late.node]))
        else:
            name = self._number()
            self.pods[f"f{name}"] = {
                "metadata": {"name": f"f{name}", "namespace": "ns", "uid": f"f{name}", "annotations": {}},
                "spec": {
                    "nodeName": late.node,
                    "schedulerName": "other",
                    "containers": [{"name": "m", "resources": {"requests": {"cpu": "8"}}}],
                },
                "status": {"phase": "Running"},
            }
            self.send(f"f{name}")
        self.woken = False
        assert self.state.assume(gang, mine, self.now) == [], "a decision of which a part holds is taken up"
        assert self.woken or gang not in self.state.gangs_by_uid, "what is dropped is planned again"

    def _carry_out(self, one: Assignment) -> None:
        charge = self.state.charges.get(one.pod)
        if charge is not None and (charge.cards or self.rng.random() < 0.7):
            self.rows[one.pod] = row_of(self.state.pods[one.pod], charge, self.now)
        match self.rng.choice(("bound", "bound", "refused", "open")):
            case "bound":
                self.bind(one.pod, one.node, one.cards)
            case "refused":
                self.undecided(one.pod)
                self.views.refused(self.state.pods[one.pod], self.now)
                keep = self.rng.random() < 0.7
                self.state.refuse(one.pod, REFUSED, self.now, keep_place=keep)
                self.views.kept(one, charge, self.now, keep=keep)
                self.woken = True  # as who carries decisions out does: others may use the room

    def sql(self) -> None:
        """What was accepted is written."""
        self.state.accept_running(self.now)
        owners = (self.state.acceptances[uid] for uid in taken(self.state, "owners"))
        for one in (*taken(self.state, "acceptances"), *owners):
            self.acceptances[one.uid] = one
