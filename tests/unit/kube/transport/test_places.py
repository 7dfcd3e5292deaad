"""Places of requests in flight."""

import asyncio

from t9ksched.kube.transport.places import Places


async def test_who_waits_gets_places_in_order() -> None:
    places, got = Places(1), list[str]()

    async def take(name: str) -> None:
        await places.wait()
        got.append(name)

    await take("first")
    waiting = [asyncio.create_task(take(name)) for name in ("second", "third")]
    await asyncio.sleep(0)
    assert got == ["first"]
    for _ in range(2):
        places.leave()
        assert places.free == 0  # it is the next one's at once: nobody else takes it before that runs
        await asyncio.sleep(0)
    assert got == ["first", "second", "third"]
    places.leave()
    assert places.free == 1
    await asyncio.gather(*waiting)


async def test_who_is_cancelled_keeps_no_place() -> None:
    places = Places(1)
    await places.wait()
    before, at_once, after = [asyncio.create_task(places.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    before.cancel()
    await asyncio.sleep(0)
    places.leave()
    at_once.cancel()  # it has been given the place, and did not run yet
    await asyncio.wait([before, at_once, after])
    assert before.cancelled()
    assert at_once.cancelled()
    assert not after.cancelled()
    places.leave()
    assert places.free == 1
