"""Once another scheduler leads, the one before it writes nothing more, however late it wakes."""

from datetime import UTC, datetime

import pytest

from t9ksched.store.errors import StoreError
from t9ksched.store.history import ADMITTED, Event
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.store import Store

EVENT = Event(event=ADMITTED, at=datetime(2026, 1, 1, tzinfo=UTC), kind="Pod", namespace="ns", name="a", uid="u")


async def test_a_former_leader_writes_nothing(store: Store) -> None:
    epoch = await store.instances.lead("http://one", "one")
    mine = store.fenced(lambda: epoch)
    await mine.history.append_many([EVENT])
    later = await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost, match=f"leadership {epoch} has ended"):
        await mine.history.append_many([EVENT])
    await store.fenced(lambda: later).history.append_many([EVENT])
    assert len(await store.history.list(event=ADMITTED)) == 2


async def test_no_process_writes_before_it_leads(store: Store) -> None:
    with pytest.raises(StoreError, match="has not told the database yet"):
        await store.fenced(lambda: 0).history.append_many([EVENT])
    await store.history.append_many([EVENT])  # other services do not lead, and need not
