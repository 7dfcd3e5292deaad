"""Keeps the cordons of cards in SQL and the annotations of nodes in step.

SQL is the record, and holds as soon as it is read, whatever the annotation says. The leader projects it into the
annotation `cordoned-cards`, and writes beside it what it projected (`cordoned-cards-recorded`). So an edit by hand is
told from its own writes: cards that were added or removed there since are added to the record, or removed from it. An
added card takes no work from the moment it is seen, if the node has it; a removed one takes work again once the record
says so. Entries that name no card are told (event `CardsIgnored`) and stay as they are. A mark with a later revision
than this database had at the start comes from a database that is no more: what the annotation names is then an edit by
hand.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES
from t9ksched.model.names import CORDONED_CARDS_ANNOTATION, RECORDED_CORDONS_ANNOTATION
from t9ksched.model.node import card_indices, no_cards
from t9ksched.model.whole import whole_number
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.card_cordons import TABLE
from t9ksched.store.changes import Change
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

BY_HAND: Final = "kubernetes"
"""The actor of what was edited on a node."""
_WHY: Final = "by an annotation of the node"
_PAUSE: Final = 60.0
"""Seconds until a node of which a write failed is tried again."""

Cards = frozenset[int]


class Step(msgspec.Struct, frozen=True):
    """What is to be done about one node: cards to add to the record or remove from it, then what the annotation says;
    `write` is False if that is there already. `rest` are entries of it that name no card: they are left as they are.
    """

    cordon: Cards
    uncordon: Cards
    cards: Cards
    write: bool
    rest: tuple[str, ...] = ()


def step(
    annotations: Mapping[str, str], recorded: Cards, newest: int, own: str | None = None, count: int | None = None
) -> Step:
    """Three-way merge: what the annotation names now, what was last projected, and what is on record. `newest` is the
    newest revision that the database had at the start, `own` the mark that this process wrote last, if any, and `count`
    how many cards the node has (None: not known). Cards that it does not have are not taken over.
    """
    text = annotations.get(CORDONED_CARDS_ANNOTATION, "")
    mark = annotations.get(RECORDED_CORDONS_ANNOTATION, "")
    revision, _, projected = mark.partition(":")
    base = card_indices(projected)
    if (whole_number(revision) or 0) > newest and mark != own:
        base = frozenset()
    rest = no_cards(text, count, recorded | card_indices(projected))
    named = card_indices(text) - card_indices(",".join(rest))
    cards = (recorded | (named - base)) - (base - named)
    there = (named, card_indices(projected), base) == (cards,) * 3
    return Step(named - base - recorded, (base - named) & recorded, cards, not there, rest)


class CordonKeeper:
    """`sweep` is called by housekeeping; `steady` gives seconds that only grow."""

    def __init__(self, client: ClusterPort, store: Store, state: ClusterState, steady: Callable[[], float]) -> None:
        self._client = client
        self._store = store
        self._state = state
        self._steady = steady
        self._newest: int | None = None
        """The newest revision at the start; None until the cordons were read."""
        self._head = 0
        self._written: dict[str, str] = {}
        """The mark written last on a node."""
        self._failed: dict[str, float] = {}
        """When the last write of a node failed."""

    async def load(self) -> None:
        """Read all of them, and hand them to the state.

        Raises:
            StoreError: the database is away; those known last stay.
        """
        self._head = await self._store.changes.head()
        known: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for one in await self._store.card_cordons.all():
            known[one.node][one.card] = one.why
        self._newest = self._head if self._newest is None else self._newest
        self._state.node_events.cordon_cards(known)

    async def take(self, changes: Iterable[Change]) -> None:
        """Read them again if one changed.

        Raises:
            StoreError: as `load`.
        """
        if any(change.table == TABLE for change in changes):
            await self.load()

    async def sweep(self) -> None:
        """Bring the annotations of nodes and the record in step; on most nodes neither says anything."""
        if self._newest is None or self._state.outage.away:
            return
        nodes = self._state.node_objects
        for name in dict.fromkeys((*self._state.card_cordons, *self._state.node_events.cordon_marks)):
            if name in nodes and self._step(name, nodes[name][0].metadata.annotations or {}).write:
                try:
                    await self._settle(name)
                except StoreError as error:
                    log.warning("cordoned cards wait for the database", error=str(error))
                    return
        for name in [name for name in self._failed if name not in self._state.node_objects]:
            del self._failed[name]

    def _step(self, name: str, annotations: Mapping[str, str]) -> Step:
        assert self._newest is not None
        recorded = frozenset(self._state.card_cordons.get(name, ()))
        known = self._state.node_objects.get(name)
        count = None if known is None else known[1].card_count
        return step(annotations, recorded, self._newest, self._written.get(name), count)

    async def _settle(self, name: str) -> None:
        """Take over what was edited on a node, then write what is on record."""
        failed = self._failed.get(name)
        if failed is not None and self._steady() - failed < _PAUSE:
            return
        try:
            # The watch may be behind: what it showed may be older than the last write.
            item = await self._client.get(NODES, name)
            wanted = self._step(name, item["metadata"].get("annotations") or {})
            if wanted.cordon or wanted.uncordon:
                await self._store.card_cordons.take_over(name, wanted.cordon, wanted.uncordon, _WHY, BY_HAND)
                await self.load()
                log.info(
                    "cordoned cards were edited on a node",
                    node=name,
                    cordoned=sorted(wanted.cordon),
                    uncordoned=sorted(wanted.uncordon),
                )
            if wanted.write:
                text = ",".join(map(str, sorted(wanted.cards)))
                mark = f"{self._head}:{text}" if text else None
                named = ",".join(filter(None, (text, *wanted.rest)))
                marks = {CORDONED_CARDS_ANNOTATION: named or None, RECORDED_CORDONS_ANNOTATION: mark}
                version = item["metadata"]["resourceVersion"]
                self._written[name] = mark or ""  # it may land although the answer is lost
                body = {"metadata": {"resourceVersion": version, "annotations": marks}}
                await self._client.patch(NODES, name, None, body)
            self._failed.pop(name, None)
        except (Conflict, NotFound):
            return  # it changed meanwhile: looked at again with the next sweep
        except ApiError as error:
            self._failed[name] = self._steady()
            log.warning("cordoned cards cannot be written on a node", node=name, error=str(error))
