"""`/internal/v1`: what only the leader knows, for API replicas. JSON over HTTP, one shared secret, never for users.

The secret comes in the Authorization header; every path needs it but `/metrics` and `/healthz`.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from t9ksched.model.errors import Invalid
from t9ksched.model.job import JobView
from t9ksched.scheduler.decide.configuration import Configuration
from t9ksched.scheduler.decide.plugins import PluginWatch
from t9ksched.scheduler.report.families import OPENMETRICS, TEXT, negotiated
from t9ksched.scheduler.report.job_shape import Json, job_of, job_shape
from t9ksched.scheduler.report.metrics import MetricsPage, Sources
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.report.observed_job import ObservedJob, identity, observed_job
from t9ksched.scheduler.report.planned_shape import planned_by_node
from t9ksched.scheduler.report.queuestatus import QueueStatuses
from t9ksched.scheduler.report.vocabulary import Names
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.serve.reserved_ahead import reserved_ahead
from t9ksched.scheduler.serve.timeline import timeline
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.serving import ConnectionLimits, listen
from t9ksched.serving.aiohttp_site import AcceptingSite, accounted, app_runner
from t9ksched.serving.shared import Shared
from t9ksched.store.errors import StoreError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OPEN: Final = ("/metrics", "/healthz")
_EARLY: Final = (*_OPEN, "/internal/v1/lacking")
"""What is told before the cluster has been read, which a missing right may delay."""
_A_SLICE: Final = 200
"""Jobs or nodes that are written down at a time."""
_HOUR: Final = 3600 * 1_000_000_000
_LARGEST: Final = 32 << 20
"""Bytes of a request: a replica passes on what users submit, which it has bounded itself."""


class Served(msgspec.Struct, frozen=True):
    """What the server reads. `lacking` gives the rights that the scheduler has not, `clock` nanoseconds since 1970,
    `judge` what a reservation by administrators would do, `simulate` status and body of the answer to a what-if
    question, `snapshot` those of a snapshot, `lengthen` those of the answer to a longer time limit of a job, `sources`
    what the metrics page reads beside the state.
    """

    state: ClusterState
    jobs: JobIndex
    configuration: Configuration
    plugins: PluginWatch
    statuses: QueueStatuses
    names: Names
    lacking: Callable[[], list[str]]
    clock: Callable[[], int]
    judge: Callable[[Any], Awaitable[Json]]
    simulate: Callable[[bytes], Awaitable[tuple[int, Json]]]
    snapshot: Callable[[], Awaitable[tuple[int, bytes]]]
    lengthen: Callable[[ObservedJob, bytes], Awaitable[tuple[int, Json]]]
    sources: Sources


class InternalServer:
    """Serves the state on a loopback or cluster address. Port 0 takes a free one; `address` says which.

    Until `ready` is set only a part of the cluster has been read: then nothing is told of it, as while nobody leads.
    """

    def __init__(self, served: Served, secret: str, listen: tuple[str, int], ready: asyncio.Event) -> None:
        self._ready = ready
        self._state = served.state
        self._index = served.jobs
        self._configuration = served.configuration
        self._plugins = served.plugins
        self._statuses = served.statuses
        self._names = served.names
        self._lacking = served.lacking
        self._clock = served.clock
        self._judge = served.judge
        self._simulate = served.simulate
        self._take_snapshot = served.snapshot
        self._lengthen = served.lengthen
        self._secret = secret
        self._listen = listen
        self._metrics_page = MetricsPage(served.state, served.sources)
        self._pages = {kind: Shared(partial(self._page, kind)) for kind in (False, True)}
        """The metrics page, which needs no secret, by whether it is OpenMetrics."""
        self._runner: web.AppRunner | None = None
        self.address = ""

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            PortInUse: the address is in use or not ours.
        """
        app = web.Application(middlewares=[accounted, self._admit], client_max_size=_LARGEST)
        app.add_routes(
            [
                web.get("/internal/v1/jobs", self._jobs),
                web.get("/internal/v1/jobs/{namespace}/{kind}/{name}", self._job),
                web.get("/internal/v1/jobs/{namespace}/{kind}/{name}/explanation", self._explanation),
                web.post("/internal/v1/jobs/{namespace}/{kind}/{name}/delayed", self._delayed),
                web.get("/internal/v1/jobs/{namespace}/{kind}/{name}/reserved", self._reserved),
                web.get("/internal/v1/nodes", self._nodes),
                web.get("/internal/v1/nodes/{name}", self._node),
                web.get("/internal/v1/timeline", self._timeline),
                web.get("/internal/v1/queues", self._queues),
                web.get("/internal/v1/queues/{name}", self._queue),
                web.get("/internal/v1/names", self._known_names),
                web.get("/internal/v1/lacking", self._rights),
                web.post("/internal/v1/reservations/judgement", self._judgement),
                web.post("/internal/v1/simulate", self._simulations),
                web.get("/internal/v1/snapshot", self._snapshot),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
            ]
        )
        self._runner = app_runner(app)
        await self._runner.setup()
        await AcceptingSite(self._runner, listen(*self._listen), ConnectionLimits(), "/internal/v1").start()
        bound = self._runner.addresses[0]
        self.address = f"http://{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        expected = f"Bearer {self._secret}"
        if request.path not in _OPEN and not hmac.compare_digest(given.encode(), expected.encode()):
            return web.json_response({"error": "wrong or missing internal secret"}, status=401)
        if request.path not in _EARLY and not self._ready.is_set():
            return web.json_response({"error": "this scheduler has not read its cluster yet"}, status=503)
        return await handler(request)

    async def _jobs(self, request: web.Request) -> web.Response:
        """All jobs; with a query those of that submitter, and those in its queues and namespaces."""
        state, query = self._state, request.query
        state.forecasts.now = self._clock()
        if query:
            users, queues, spaces = (query.getall(key, ()) for key in ("submitter", "queue", "namespace"))
            uids = await self._index.of(users, queues, spaces)
        else:
            uids = await self._index.all()
        return await _list("jobs", (view for uid in uids if (view := job_of(state, uid)) is not None))

    async def _job(self, request: web.Request) -> web.Response:
        view = await self._named(request)
        return _missing("job") if view is None else _json(job_shape(view, self._state))

    async def _explanation(self, request: web.Request) -> web.Response:
        view, pod = await self._named(request), None
        if view is None and request.match_info["kind"].lower() == "pod":
            view, pod = self._member(request)
        return _missing("job") if view is None else _json(await explanation(view, self._state, pod))

    async def _delayed(self, request: web.Request) -> web.Response:
        """The planned starts that the limit in the body delays; one that delays none counts from now on."""
        view = await self._named(request)
        if view is None:
            return _missing("job")
        status, answer = await self._lengthen(view, await request.read())
        return web.Response(body=msgspec.json.encode(answer), status=status, content_type="application/json")

    async def _reserved(self, request: web.Request) -> web.Response:
        """The reservations that a longer limit of the job takes room from: `seconds` in the query, 0 for no limit."""
        view = await self._named(request)
        if view is None:
            return _missing("job")
        seconds = int(request.query.get("seconds", "0")) or None
        return _json({"reserved": reserved_ahead(view, self._state, self._rules(), self._clock(), seconds)})

    def _rules(self) -> EndRules:
        policy = self._configuration.policy
        return EndRules(self._state, policy.start_timeout_seconds, policy.preemption.max_grace_seconds)

    def _member(self, request: web.Request) -> tuple[ObservedJob | None, PodRecord | None]:
        """A pod that is no job of its own but a member of one, and that job."""
        pod = self._state.pod_named(request.match_info["namespace"], request.match_info["name"])
        if pod is None or pod.gang is None:
            return None, None
        return observed_job(self._state, identity(pod.gang)[0]), pod

    async def _named(self, request: web.Request) -> ObservedJob | None:
        """The job of that name; for a PodGroup that a job owns, that job; for a Deployment its newest ReplicaSet's."""
        path = request.match_info
        self._state.forecasts.now = self._clock()
        found = await self._index.find(path["namespace"], path["kind"], path["name"])
        if found is None and path["kind"].lower() == "podgroup":
            gang = self._state.gangs.get((path["namespace"], path["name"]))
            if gang is not None and not gang.virtual:
                return observed_job(self._state, identity(gang)[0])
        if found is None and path["kind"].lower() == "deployment":
            return self._newest(path["namespace"], path["name"])
        return found

    def _newest(self, namespace: str, name: str) -> ObservedJob | None:
        """The newest job of a Deployment: that of the ReplicaSet it made last."""
        owners = self._state.owners
        deployment = owners.named(namespace, "Deployment", name)
        below = owners.controllers(deployment.uid) if deployment is not None else ()
        views = [view for uid in below if (view := observed_job(self._state, uid)) is not None]
        return max(views, key=lambda view: view.created, default=None)

    async def _nodes(self, _: web.Request) -> web.Response:
        planned = await planned_by_node(self._state)
        shapes = (node_shape(self._state, name, planned.get(name, ())) for name in sorted(self._state.node_objects))
        return await _list("nodes", (shape for shape in shapes if shape is not None))

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        shape = node_shape(self._state, name, (await planned_by_node(self._state)).get(name, ()))
        return _missing("node") if shape is None else _json(shape)

    async def _timeline(self, request: web.Request) -> web.Response:
        """What runs, is planned and reserved, `hours` ahead."""
        now, hours = self._clock(), int(request.query.get("hours", "24"))
        return _json(await timeline(self._state, self._rules(), now, now + hours * _HOUR))

    async def _queues(self, _: web.Request) -> web.Response:
        return _json({"queues": {name: self._statuses.of(name) for name in sorted(self._state.queues)}})

    async def _queue(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._state.queues:
            return _missing("queue")
        return _json(self._statuses.of(name))

    async def _known_names(self, _: web.Request) -> web.Response:
        return _json(await self._names.known())

    async def _rights(self, _: web.Request) -> web.Response:
        """The kinds that the scheduler may not watch because a right is missing."""
        return _json({"lacking": self._lacking()})

    async def _judgement(self, request: web.Request) -> web.Response:
        """What the reservation in the body would do; nothing is changed."""
        try:
            return _json(await self._judge(msgspec.json.decode(await request.read())))
        except (Invalid, msgspec.DecodeError) as error:
            return web.json_response({"error": str(error)}, status=400)
        except StoreError as error:
            return web.json_response({"error": str(error)}, status=503)

    async def _simulations(self, request: web.Request) -> web.Response:
        """What would happen; nothing does."""
        status, answer = await self._simulate(await request.read())
        return web.Response(body=msgspec.json.encode(answer), status=status, content_type="application/json")

    async def _snapshot(self, _: web.Request) -> web.Response:
        """The present, to be replayed elsewhere."""
        status, body = await self._take_snapshot()
        return web.Response(body=body, status=status, content_type="application/json")

    async def _metrics(self, request: web.Request) -> web.Response:
        openmetrics = negotiated(request.headers.get("Accept", ""))
        page = await self.metrics(openmetrics)
        return web.Response(body=page, headers={"Content-Type": OPENMETRICS if openmetrics else TEXT})

    async def metrics(self, openmetrics: bool = False) -> bytes:
        """The metrics page, in the text format of Prometheus or as OpenMetrics."""
        return await self._pages[openmetrics]()

    async def _page(self, openmetrics: bool) -> bytes:
        refused, plugins = bool(self._configuration.refused), self._plugins
        page, slow = self._metrics_page, plugins.slow.answers
        return await page.exposition(refused, plugins.failures, slow, openmetrics=openmetrics)

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")


async def _list(what: str, shapes: Iterable[Json | JobView]) -> web.Response:
    """All of them, made in slices: there may be many. Each is as it is when its turn comes."""
    pieces: list[bytes] = []
    for shape in shapes:
        pieces.append(msgspec.json.encode(shape))
        if len(pieces) % _A_SLICE == 0:
            await asyncio.sleep(0)
    body = b'{"%s":[%s]}' % (what.encode(), b",".join(pieces))
    return web.Response(body=body, content_type="application/json")


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _missing(what: str) -> web.Response:
    return web.json_response({"error": f"the leader knows no such {what}"}, status=404)
