"""Thousands that wait are not looked at every other second."""

import pytest

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.keep.forecast_keeper import ForecastKeeper
from tests.unit.scheduler.state.test_state import NOW, group, pod, state_with

SECOND = 1_000_000_000
MANY = 1500


async def test_a_look_at_many_is_followed_by_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_with(queues={"q": {}})
    for at in range(MANY):
        state.upsert_group(group(f"g{at}", 1))
        state.upsert_pod(pod(f"p{at}", group=f"g{at}"))
    for gang in list(state.pending):
        state.progress.waits(gang, (Reason(Code.INSUFFICIENT_RESOURCES, "best has 0 free"),), 1)
    now, looked = NOW, 0
    keeper = ForecastKeeper(None, state, lambda: now)
    look = keeper._look

    def counted(*args: object) -> None:
        nonlocal looked
        looked += 1
        look(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(keeper, "_look", counted)
    for seconds, looks in ((0, 1), (2, 1), (4, 2), (-3600, 3)):
        now = NOW + seconds * SECOND
        await keeper.sweep()
        assert looked == looks * MANY, f"after {seconds} s"
    assert state.forecasts.waiting.total() == MANY
