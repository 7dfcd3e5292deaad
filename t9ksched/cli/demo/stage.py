"""What scenes act on: REST and the Kubernetes API of a running service, and a record of every step.

A step that fails ends its scene; the scenes after it still play, and the demo as a whole has failed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from t9ksched.cli.cards import owner_of
from t9ksched.cli.client import Client
from t9ksched.cli.demo.audience import Audience
from t9ksched.cli.demo.picture import Picture
from t9ksched.cli.demo.record import SceneRecord, Step
from t9ksched.cli.failure import Failure
from t9ksched.kube.errors import ApiError
from t9ksched.kube.transport.client import Client as KubeClient

NAMESPACE = "vision"
TIMEOUT_SECONDS = 15.0
_LOOK_SECONDS = 0.2

Json = dict[str, Any]


class SceneOver(Exception):
    """A step failed: the rest of its scene cannot be played."""


class Unexpected(Exception):
    """Something is not as the scene needs it; the text says what was seen."""


class Stage:
    """Where a scene plays."""

    def __init__(self, rest: Client, kube: KubeClient, picture: Picture, audience: Audience) -> None:
        self.kube = kube
        self._rest = rest
        self._picture = picture
        self._audience = audience

    # Scenes and steps -------------------------------------------------------------------------------------------

    async def play(self, name: str, scene: Callable[["Stage"], Awaitable[None]]) -> None:
        """Play one scene and record how it went."""
        record = SceneRecord(name)
        self._picture.recording.scenes.append(record)
        self._audience.scene_began(record)
        with suppress(SceneOver):
            await scene(self)
        await asyncio.sleep(self._audience.pause)
        self._audience.scene_ended(record)

    @asynccontextmanager
    async def step(self, what: str) -> AsyncIterator[Step]:
        """One step: in order when the block ends, failed when it raises. Put what people should read into its note."""
        step = Step(what)
        self._picture.recording.scenes[-1].steps.append(step)
        self._audience.changed()
        try:
            yield step
        except (Failure, Unexpected, ApiError) as error:
            step.ok, step.note = False, str(error)
            raise SceneOver from error
        else:
            step.ok = True
        finally:
            self._audience.step_ended(step)
        await asyncio.sleep(self._audience.pause / 2)

    # What a user can do -----------------------------------------------------------------------------------------

    async def get(self, path: str) -> Any:
        """GET of the REST API."""
        return await asyncio.to_thread(self._rest.get, path)

    async def post(self, path: str, body: Any = None) -> Any:
        """POST to the REST API."""
        return await asyncio.to_thread(self._rest.post, path, body)

    async def put(self, path: str, body: Any) -> Any:
        """PUT to the REST API."""
        return (await asyncio.to_thread(lambda: self._rest.call("PUT", path, body=body))).body

    async def submit(self, job: Json) -> Json:
        """Submit a job by REST into the demo's namespace."""
        made = await asyncio.to_thread(lambda: self._rest.post("/apis/v1/workloads", job, namespace=NAMESPACE))
        return dict(made["items"][0])

    async def cancel(self, kind: str, name: str) -> None:
        """Cancel a job by REST."""
        await asyncio.to_thread(self._rest.delete, f"/apis/v1/workloads/{NAMESPACE}/{kind}/{name}")

    async def job(self, kind: str, name: str) -> Json:
        """A job shape."""
        return dict(await self.get(f"/apis/v1/workloads/{NAMESPACE}/{kind}/{name}"))

    async def explain(self, kind: str, name: str) -> Json:
        """An explanation shape."""
        return dict(await self.get(f"/apis/v1/workloads/{NAMESPACE}/{kind}/{name}/explanation"))

    async def until(self, what: str, look: Callable[[], Awaitable[Json]], good: Callable[[Json], bool]) -> Json:
        """Look again and again until it is good. Raises Unexpected, with what was seen last, when it never gets so."""
        seen: Json = {}
        end = asyncio.get_running_loop().time() + TIMEOUT_SECONDS
        while True:
            try:
                seen = await look()
                if good(seen):
                    return seen
            except Failure as failure:
                # The scheduler hears of a new object a moment after the API server has it.
                if failure.name != "NotFound":
                    raise
            if asyncio.get_running_loop().time() > end:
                raise Unexpected(f"{what} did not come within {TIMEOUT_SECONDS:.0f} s; last seen: {_brief(seen)}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def running(self, kind: str, name: str, members: int) -> Json:
        """Wait until exactly `members` members of a job run, and check on the way that it never starts in part."""
        return await self.until(
            f"{kind}/{name} running whole",
            lambda: self.job(kind, name),
            lambda job: job["members"]["running"] == members,
        )

    async def holding(self, kind: str, name: str, cards: int) -> dict[str, list[int]]:
        """Wait until a job holds `cards` cards; their indices by node."""
        owner = f"{NAMESPACE}/{kind}/{name}"

        async def held() -> Json:
            return dict(cards_of((await self.get("/apis/v1/nodes"))["items"], owner))

        return await self.until(f"{cards} cards for {owner}", held, lambda held: sum(map(len, held.values())) == cards)

    async def watch(self) -> None:
        """Keep the picture up to date until cancelled."""
        while True:
            with suppress(Failure):  # the service is starting or stopping; the next request shows it
                await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Bring the picture up to date."""
        nodes, jobs = await self.get("/apis/v1/nodes"), await self.get("/apis/v1/workloads")
        self._picture.nodes, self._picture.jobs = nodes["items"], jobs["items"]
        self._audience.changed()


def cards_of(nodes: list[Json], owner: str) -> dict[str, list[int]]:
    """The cards of each node that `owner` (`namespace/Kind/name`) holds."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        mine = [c["index"] for c in node["gpus"] if any(owner_of(holder) == owner for holder in c["holders"])]
        if mine:
            found[node["name"]] = mine
    return found


def _brief(seen: Json) -> str:
    keys = ("phase", "verdict", "members", "reason", "reasons")
    return ", ".join(f"{key}={seen[key]}" for key in keys if key in seen) or "nothing"
