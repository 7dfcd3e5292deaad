"""Events that warn of pods and nodes: pods that were not bound by us, cards that cannot be theirs, nodes whose words
about their cards cannot be followed, and nodes that take no binding now.
"""

import asyncio
from typing import Final

from t9ksched.model import names
from t9ksched.scheduler.report.event_writer import EventWriter, reference
from t9ksched.scheduler.report.job_recorder import SLICE
from t9ksched.scheduler.state.node_backoff import not_yet
from t9ksched.scheduler.state.state import ClusterState

_NOT_GIVEN: Final = (
    "what cannot be read is not given, the other cards are; look at the labels and annotations of the node and at its"
    " device plugin (t9ksched doctor)"
)


class Warnings:
    """Writes an event for each thing that the state found, a few at a time."""

    def __init__(self, state: ClusterState, events: EventWriter) -> None:
        self._state = state
        self._events = events
        self._bypassing = state.feed.bypassing.follow()
        self._drifting = state.cards.drifts.follow()
        self._misheld = state.card_audit.drifts.follow()
        self._misread_links = state.feed.misread_links.follow()
        self._misread_cards = state.feed.misread_cards.follow()
        self._held_up = state.feed.held_up.follow()

    async def tell(self) -> None:
        """Write what was found since the last call."""
        await self._tell_bypassing()
        await self._tell_drifting()
        await self._tell_misread()
        await self._tell_held_up()

    async def _tell_bypassing(self) -> None:
        for count, (namespace, name, uid, node) in enumerate(self._bypassing.take(), start=1):
            message = (
                f"its creator put it on node {node}: {names.SCHEDULER_NAME} was not asked, counts it to no queue and to"
                " no group; leave spec.nodeName out"
            )
            about = reference("v1", "Pod", namespace, name, uid)
            self._events.event(about, names.EVENT_BYPASSED, message, warning=True)
            if count % SLICE == 0:
                await asyncio.sleep(0)

    async def _tell_drifting(self) -> None:
        """Write an event for each pod whose annotations differ from the record, which counts, and for each whose cards
        are gone or held by another one, too.
        """
        for _ in self._state.card_audit.settling():
            await asyncio.sleep(0)
        for count, (record, what) in enumerate((*self._drifting.take(), *self._misheld.take()), start=1):
            about = reference("v1", "Pod", record.namespace, record.name, record.uid)
            message = f"{what}: no card that it may hold is given to another pod"
            self._events.event(about, names.EVENT_CARD_DRIFT, message, warning=True)
            if count % SLICE == 0:
                await asyncio.sleep(0)

    async def _tell_held_up(self) -> None:
        """Write an event for each pod whose node is busy with another's."""
        for count, (record, why) in enumerate(self._held_up.take(), start=1):
            if record.gang is not None:
                self._events.gang(record.gang, names.EVENT_WAITING, not_yet(why))
            if count % SLICE == 0:
                await asyncio.sleep(0)

    async def _tell_misread(self) -> None:
        """Write an event for each node of which what it says about its cards cannot be followed."""
        found = [
            (names.EVENT_LINKS_IGNORED, "the annotation", *each, "its cards are given as without links")
            for each in self._misread_links.take()
        ]
        found += [
            (names.EVENT_CARDS_IGNORED, "part of the inventory", *each, _NOT_GIVEN)
            for each in self._misread_cards.take()
        ]
        for count, (event, what, node, uid, fault, effect) in enumerate(found, start=1):
            message = f"{what} of node {node} is not followed: {fault}; {effect}"
            about = reference("v1", "Node", "", node, uid)
            self._events.event(about, event, message, warning=True)
            if count % SLICE == 0:
                await asyncio.sleep(0)
