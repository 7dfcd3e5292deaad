"""Ways to break the scheduler on purpose, each against one promise: some history must turn red by each."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from t9ksched.engine.ledger import Ledger
from t9ksched.engine.masks import QueueNodes
from t9ksched.kube.binding import Bound, Refusal, Refused
from t9ksched.kube.errors import ApiError
from t9ksched.scheduler.charges import Charges
from t9ksched.scheduler.executor import Executor
from t9ksched.scheduler.integrity import Integrity
from t9ksched.scheduler.observed import Observed
from t9ksched.scheduler.state import ClusterState

_recharge = Observed._recharge
_charge = Charges.charge


async def _nothing(*_: Any) -> int:
    return 0


async def _guess(self: Executor, binding: Any) -> None:
    """Any error counts as a refusal, whatever it leaves open."""
    try:
        await self._client.bind(binding.namespace, binding.name, binding.body())
        self._react(binding, Bound())
    except ApiError as error:
        self._react(binding, Refused(Refusal(error.status, error.reason, error.message)))


def _kept(self: Observed, record: Any) -> bool:
    return False if record.finished else _recharge(self, record)


def _without_cards(self: Charges, uid: str, node: str, pod_class: Any, queue: str, cards: Any) -> None:
    _charge(self, uid, node, pod_class, queue, {})


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "nodes are never charged": (Charges, "_apply", lambda self, charge: None),
    "cards are not charged by index": (Charges, "charge", _without_cards),
    "quota is not asked": (Ledger, "can_charge", lambda self, queue, demand, **more: []),
    "half-bound gangs are left as they are": (Integrity, "sweep", _nothing),
    "queues may use every node": (QueueNodes, "allows", lambda self, facts: True),
    "open results are guessed": (Executor, "_bind", _guess),
    "ended pods keep their room": (Observed, "_recharge", _kept),
    "refusals are forgotten": (ClusterState, "refuse", lambda self, *args, **more: None),
}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The scheduler with that fault."""
    owner, attribute, new = MUTANTS[name]
    with patch.object(owner, attribute, new):
        yield
