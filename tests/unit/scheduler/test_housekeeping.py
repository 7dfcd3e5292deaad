"""Clean-up: what was agreed with and decided about what is gone is forgotten, what is there is kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from t9ksched.admission.access import Members
from t9ksched.scheduler.housekeeping import Housekeeping
from t9ksched.store import Store
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from tests.unit.scheduler.test_permissions import cluster, owned_group


async def test_what_is_gone_is_forgotten_after_an_hour(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    later: Any = lambda: int((now + timedelta(hours=2)).timestamp() * 1e9)  # noqa: E731
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        state = cluster(Members())
        state.upsert_group(owned_group(owner="job"))
        for uid in ("job", "gone"):
            await store.controls.hold(Event(event="job-held", uid=uid, actor="root"))
            state.accept(Acceptance(uid=uid, kind="MPIJob", namespace="ns", name=uid))
        await store.acceptances.put_many(list(state.acceptances.values()))
        state.direct({one.uid: one for one in await store.controls.all()})
        keeping: Any = Housekeeping(state, store, None, None, later, timedelta(days=90))  # type: ignore[arg-type]
        keeping._clock = lambda: int(now.timestamp() * 1e9)
        await keeping.clean_up()
        assert len(await store.controls.all()) == len(await store.acceptances.all()) == 2
        keeping._clock = later
        await keeping.clean_up()
        assert [one.uid for one in await store.controls.all()] == ["job"] == list(state.controls)
        assert [one.uid for one in await store.acceptances.all()] == ["job"] == list(state.acceptances)
