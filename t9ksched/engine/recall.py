"""What one cycle takes from memory instead of trying it again, and what it leaves there.

An answer lasts while the nodes of the ask, and the pods that its rules speak of, are as they were when it was given; it
is left in memory only if they are, too, as they were when the cycle began.
"""

import numpy as np

from t9ksched.engine.failures import Failures, Place
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.placement.feasibility import Mask
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Policy
from t9ksched.engine.reservations import Held
from t9ksched.engine.scheduling_key import Ask
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason


class Recall:
    """Memory of failures, as one cycle may use it.

    Attributes:
        failures: what is remembered.
        moved: nodes that are not as they were when the cycle began, shape (nodes,).
    """

    def __init__(self, view: View, trial: Trial, held: Held, ledger: Ledger, policy: Policy) -> None:
        self._view = view
        self._ledger = ledger
        self._crowd = trial.crowd
        self.failures: Failures = trial.memo.failures
        self.failures.begin(view.nodes, policy, held.rooms(), trial.crowd.begin() if trial.crowd else {})
        if "preempt" in policy.actions:
            specs = ((name, state.spec.priority, state.spec.preemptible) for name, state in view.queues.items())
            self.failures.among((view.running, *specs))
        self.moved: Mask = np.zeros(len(view.nodes), np.bool_)

    def answer(self, gang: Gang, ask: Ask) -> tuple[Reason, ...] | None:
        """What the ask was told in an earlier cycle, if nothing has changed since for it."""
        key = _key(gang, ask)
        if not self.failures.asked(key):
            return None
        place = self._place(ask)
        return None if place is None else self.failures.answer(key, place)

    def note(self, gang: Gang, ask: Ask, reasons: tuple[Reason, ...]) -> None:
        """The ask was tried and failed."""
        if self._place(ask) is not None:
            self.failures.note(_key(gang, ask), reasons)

    def in_vain(self, gang: Gang, ask: Ask) -> bool:
        """Whether victims were looked for in an earlier cycle and none found, and nothing has changed since for it."""
        place = self._place(ask)
        return place is not None and self.failures.in_vain(self._search(gang, ask), place)

    def note_vain(self, gang: Gang, ask: Ask) -> None:
        """Victims were looked for, among all there were when the cycle began, and none found."""
        if self._place(ask) is not None:
            self.failures.note_vain(self._search(gang, ask))

    def _search(self, gang: Gang, ask: Ask) -> tuple[object, ...]:
        """What a search for victims depends on besides nodes, pods and who runs."""
        key = (gang.queue, gang.priority, *_key(gang, ask))
        if not ask.ruled:
            return key
        # Rules may be against those who are chosen, and who is chosen depends on whose turn to go it is.
        queues, share = self._view.queues, self._ledger.share
        return (*key, *sorted(queues, key=lambda name: (queues[name].spec.priority, -share(name), name)))

    def _place(self, ask: Ask) -> Place | None:
        """Nodes and pods that an ask depends on, if they are as they were when the cycle began."""
        if not self.failures.knows(self._view.nodes):
            return None
        nodes: Mask = np.logical_or.reduce([column.mask for column, _ in ask.groups])
        if bool(np.any(self.moved & nodes)):
            return None
        if not ask.ruled or self._crowd is None:
            return nodes, ()
        terms = tuple({term for column, _ in ask.groups for term in column.terms})
        return (nodes, terms) if all(self._crowd.unmoved(term) for term in terms) else None


def _key(gang: Gang, ask: Ask) -> tuple[object, ...]:
    """What a refusal depends on besides nodes and pods."""
    if gang.topology == "None" and not ask.ruled:
        return ask.key
    ruled = tuple(column.ruled for column, _ in ask.groups)
    return (*ask.key, ruled, gang.topology, gang.levels, gang.nodes)
