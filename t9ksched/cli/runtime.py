"""Everything in one process: dev cluster (or a real one), scheduler, controllers, REST, one database.

`running(plan)` starts the parts in the order in which they need each other, says when all of them are ready, and stops
them in the opposite order. When one part dies all of them stop, and its error is raised. State that must survive is in
the data directory: after a kill, the next start goes on from there.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from t9ksched.admission.misspelt import also_read
from t9ksched.api.app import create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.api.leader import HttpLeader
from t9ksched.api.submission.recovery import recovering
from t9ksched.cli.assembly import PodPlace, controllers_of, limits_of, scheduler_of, services_of
from t9ksched.cli.datadir import database_url, lock, remembered
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.foreign import failures, first_cause
from t9ksched.cli.here import check_nodes, this_machine
from t9ksched.cli.leading import CONTROLLER_LEASE, SCHEDULER_LEASE, leading
from t9ksched.client.known import ClientFile
from t9ksched.devcluster.agents import Agents
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.local.machine import Machine
from t9ksched.devcluster.names import ANNOTATIONS
from t9ksched.devcluster.nodes.presets import load_nodes
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import LEASES
from t9ksched.kube.setup.crds import ensure, ensure_namespace, read
from t9ksched.kube.transport.config import connect
from t9ksched.kube.write.leader_guard import read_only
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.model.resources import add_card_resources
from t9ksched.packaged import folder
from t9ksched.settings import Settings
from t9ksched.store import Store

READY_SECONDS = 120.0
LEAD_SECONDS = 40.0
"""More than the lease of a scheduler that was killed lasts."""
STOP_SECONDS = 5.0


class Plan(msgspec.Struct, frozen=True):
    """What to start. `nodes` is a preset or a file for the dev cluster, unused with a `kubeconfig` of a real one.

    With `here` the cluster's one node is this machine, and containers are processes on it. With `observe` nothing of a
    real cluster is changed: no controllers, no custom kinds, no lease, no event.
    """

    data_dir: Path
    settings: Settings
    port: int
    nodes: str = "demo"
    kubeconfig: Path | None = None
    observe: bool = False
    here: bool = False


class Running(msgspec.Struct, frozen=True):
    """Where what was started answers. `cluster` is the dev cluster's URL, None on a real cluster; `machine` is this
    one if it is a node.
    """

    server: str
    token: str
    kubeconfig: Path
    data_dir: Path
    cluster: str | None
    machine: Machine | None = None

    def to_json(self) -> dict[str, str]:
        """What programs read."""
        return {
            "server": self.server,
            "token": self.token,
            "kubeconfig": str(self.kubeconfig),
            "dataDir": str(self.data_dir),
        }


@asynccontextmanager
async def running(plan: Plan) -> AsyncIterator[Running]:
    """Start everything; the block runs while all of it does.

    Raises:
        Failure: the data directory or the port is taken, the node file has an error, or a part died.
    """
    with failures(), first_cause():
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(READY_SECONDS):
                    up = await _start(plan, stack)
            except TimeoutError:
                raise Failure(
                    f"Not everything was ready after {READY_SECONDS:.0f} s.",
                    remedy="Repeat with T9KSCHED_LOG_LEVEL=info in the environment to see what it waits for.",
                ) from None
            yield up


async def _lead(plan: Plan, client: ClusterPort, name: str, stack: AsyncExitStack) -> ClusterPort:
    """A port of the leader by that lease, once this process leads.

    Raises:
        Failure: another process leads.
    """
    timing = plan.settings.timing
    renew = connect(plan.kubeconfig, connections=2, timeout=timing.renew_deadline)
    try:
        async with asyncio.timeout(LEAD_SECONDS):
            return await stack.enter_async_context(leading(client, name, timing=timing, renew=renew))
    except TimeoutError:
        lease = await client.get(LEASES, name, SYSTEM_NAMESPACE)
        holder = lease["spec"].get("holderIdentity") or "?"
        raise Failure(
            f"Another process works on this cluster: {holder} holds the lease {SYSTEM_NAMESPACE}/{name}.",
            remedy="Stop that one first; or add --observe, which plans and explains without leading.",
        ) from None


async def _port_of_controllers(plan: Plan, client: ClusterPort, stack: AsyncExitStack) -> ClusterPort:
    """What the controllers write with: on a real cluster a port of their own lease, as their Deployment has it."""
    if plan.kubeconfig is None:
        return client
    own = connect(plan.kubeconfig, write_timeout=plan.settings.timing.write_seconds)
    return await _lead(plan, await stack.enter_async_context(own), CONTROLLER_LEASE, stack)


async def _start(plan: Plan, stack: AsyncExitStack) -> Running:
    settings = plan.settings
    add_card_resources(*settings.card_resources)
    if plan.observe:
        _check_observer(plan)
    nodes = [] if plan.kubeconfig or plan.here else load_nodes(plan.nodes)
    stack.enter_context(lock(plan.data_dir))
    listener = stack.enter_context(listen(settings.host, plan.port))
    store = await stack.enter_async_context(
        await Store.open(settings.db or database_url(plan.data_dir), timing=settings.timing)
    )
    token = await _admin_token(plan, store)

    kubeconfig, dev, machine = plan.kubeconfig, None, None
    if plan.here:
        machine = await this_machine(plan.data_dir, settings)
    if kubeconfig is None:
        kubeconfig = plan.data_dir / "kubeconfig"
        also_read(*ANNOTATIONS)
        dev = DevCluster(plan.data_dir / "cluster", nodes, open_to_users=True, limits=limits_of(settings))
        dev.machine_logs = machine.runtime.root if machine else None
        await dev.start()
        stack.push_async_callback(dev.stop)
        await check_nodes(dev.port_api, machine, plan.data_dir)
        if machine is not None:
            await machine.register(dev.port_api)
        dev.write_kubeconfig(kubeconfig)
    client: ClusterPort = await stack.enter_async_context(
        connect(kubeconfig, write_timeout=None if dev else settings.timing.write_seconds)
    )
    if plan.observe:
        client = read_only(client)
    elif dev is None:
        await ensure_namespace(client)
        # Another scheduler may run on a real cluster; a dev cluster belongs to this process.
        client = await _lead(plan, client, SCHEDULER_LEASE, stack)
    if not plan.observe:
        makes = await _port_of_controllers(plan, client, stack)
        await ensure(client, read(folder("crds")))

    parts = await stack.enter_async_context(asyncio.TaskGroup())
    if dev is not None:
        agents = Agents(dev.port_api, faults=dev.faults, machine=machine)
        stack.push_async_callback(_stop, parts.create_task(agents.run(), name="agents"))
        await agents.synced()
    secret = settings.internal_secret.get_secret_value() if settings.internal_secret else secrets.token_urlsafe(32)
    scheduler = scheduler_of(settings, client, store, secret, observe=plan.observe)
    stack.push_async_callback(_stop, parts.create_task(scheduler.run(), name="scheduler"))
    server = f"http://{_reachable(settings.host)}:{listener.getsockname()[1]}"
    pods: PodPlace = "apart" if dev is None else "here" if machine is not None else "none"
    controllers = None if plan.observe else controllers_of(settings, makes, pods, server if dev is not None else None)
    if controllers is not None:
        stack.push_async_callback(_stop, parts.create_task(controllers.run(), name="controllers"))
    leader = await stack.enter_async_context(HttpLeader(store.instances, secret))
    services = services_of(settings, store, client, leader, controllers)
    if not plan.observe:
        await stack.enter_async_context(recovering(services))
    await stack.enter_async_context(Server(create_app(services, at_once=False), listener, limits_of(settings)))

    await scheduler.ready.wait()
    if controllers is not None:
        await controllers.ready.wait()
    await _until_ready(server, token)
    ClientFile(server, token).write(plan.data_dir)
    return Running(server, token, kubeconfig, plan.data_dir, dev.url if dev else None, machine)


def _check_observer(plan: Plan) -> None:
    """An observer needs a cluster, and must not write to the database of the scheduler that works there."""
    if plan.kubeconfig is None:
        raise Failure(
            "There is nothing to observe on a new dev cluster.",
            remedy="Name a cluster: t9ksched up --observe --kubeconfig ~/.kube/config",
            code=BAD_USAGE,
        )
    if plan.settings.db:
        raise Failure(
            "An observer keeps a database of its own in the data directory.",
            remedy="Leave --db (and T9KSCHED_DB) out.",
            code=BAD_USAGE,
        )


async def _admin_token(plan: Plan, store: Store) -> str:
    """The administrator's token: the one that `client.json` remembers if it still counts, else a new one."""
    known = remembered(plan.data_dir)
    if known is not None and (record := await store.tokens.authenticate(known.token)) and record.role == "admin":
        return known.token
    given = plan.settings.admin_token.get_secret_value() if plan.settings.admin_token else None
    made = await store.tokens.ensure_admin(given)
    if made is not None:
        return made
    if given is not None and await store.tokens.authenticate(given):
        return given
    # The database has an administrator's token, but client.json with its secret was removed.
    return await store.tokens.create(f"admin-{secrets.token_hex(3)}", "admin", owner="admin")


async def _stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task], timeout=STOP_SECONDS)


async def _until_ready(server: str, token: str) -> None:
    """Wait until REST answers with what the scheduler knows."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for path in ("/readyz", "/apis/v1/nodes"):
            while True:
                if await _good(session, server + path):
                    break
                await asyncio.sleep(0.02)


async def _good(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def _reachable(host: str) -> str:
    """The address by which this machine reaches a host it listens on."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{name}]" if ":" in name else name
