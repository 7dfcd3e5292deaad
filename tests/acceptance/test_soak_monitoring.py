"""An hour of honest load on `t9ksched up`, watched by Prometheus with our rules: no alert fires, every panel has data.

`T9KSCHED_SOAK_SECONDS` says for how long, `T9KSCHED_SOAK_REPORT` where the report goes (JSON; it is printed too). Users
submit jobs of several kinds that use most of the cards, look at them, and cancel some; an urgent queue preempts now and
then; an administrator cordons cards, keeps a node for maintenance and stops scheduling for a moment. It needs
`prometheus` in the path (Debian: package `prometheus`).
"""

import asyncio
import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from t9ksched.cli.demo import jobs
from t9ksched.client import AsyncClient, NotFound, NotReached, Refused, WaitTimeout
from t9ksched.devcluster.names import RUN_SECONDS_ANNOTATION
from t9ksched.scheduler.report.families import NODE_REQUESTS
from tests import prometheus
from tests.acceptance.conftest import Json, Up, queue, until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        prometheus.program("prometheus") is None, reason="prometheus is not installed (Debian: package prometheus)"
    ),
]
SECONDS = float(os.environ.get("T9KSCHED_SOAK_SECONDS", "3600"))
REPORT = os.environ.get("T9KSCHED_SOAK_REPORT", "")
EVERY = 15
"""Seconds between two scrapes."""
CONFIGURATION = """\
actions: "allocate,preempt"
tiers:
- plugins: [{name: basic}, {name: resource}, {name: affinity}, {name: predicates}, {name: binpack}, {name: cardless}]
preempt: {minimumRunTime: 30s}
planning: {enabled: true, resolution: 5s}
"""
A100, A40 = "NVIDIA-A100-PCIE-80GB", "NVIDIA-A40-40GB"
USERS = 6
SHAPES = (("a100", 1, 1), ("a100", 1, 4), ("a100", 2, 4), ("a100", 4, 4), ("a100", 2, 8), ("a40", 1, 2), ("a40", 2, 4))
"""Queue, pods and cards of each: what users ask for."""


def lasting(made: Json, seconds: int) -> Json:
    """The workload, with pods that run for so many seconds."""
    for template in _templates(made["spec"]):
        template.setdefault("metadata", {}).setdefault("annotations", {})[RUN_SECONDS_ANNOTATION] = str(seconds)
    return made


def _templates(spec: Json) -> Iterator[Json]:
    if "template" in spec:
        yield spec["template"]
    for replica in spec.get("replicaSpecs", ()):
        yield replica["template"]


class Load:
    """What people do. `told` counts it; `faults` are answers that none of them should get."""

    def __init__(self, up: Up, seconds: float) -> None:
        self._up = up
        self._end = time.monotonic() + seconds
        self._dice = random.Random(11)
        self.told: Counter[str] = Counter()
        self.faults: list[str] = []

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._end

    async def run(self, tokens: list[str]) -> None:
        """Users, an administrator, and a program that listens, until the time is over."""
        listener = asyncio.create_task(self._listen())
        async with asyncio.TaskGroup() as people:
            for at, token in enumerate(tokens):
                people.create_task(self._user(f"u{at}", token))
            people.create_task(self._administrator())
        listener.cancel()

    async def _listen(self) -> None:
        async with AsyncClient(self._up.server, self._up.token) as client:
            async for event in client.events():
                self.told[f"event {event.type}"] += 1

    async def _user(self, user: str, token: str) -> None:
        """One job after the other, each looked at now and then."""
        async with AsyncClient(self._up.server, token) as client:
            number = 0
            while self.goes_on:
                await asyncio.sleep(self._dice.uniform(1, 8 if number else 60))
                number += 1
                try:
                    await self._life(client, f"{user}-{number}")
                except Refused as why:  # "not now" is an answer to try again after; too many of them are an alert
                    self.told[f"refused {why.code}"] += 1
                    if why.code not in ("Unavailable", "RateLimited"):
                        self.faults.append(f"{user}-{number}: {why}")
                except (NotReached, WaitTimeout) as why:
                    self.faults.append(f"{user}-{number}: {why}")

    async def _life(self, client: AsyncClient, name: str) -> None:
        dice = self._dice
        where, pods, cards = dice.choice(SHAPES)
        if dice.random() < 0.05:
            where, pods, cards = "urgent", 1, 8
        seconds, limit = dice.randint(15, 90), None
        kind = dice.choice(("train", "train", "mpi", "batch", "notebook"))
        if kind == "batch":
            made = jobs.batch(name, where, cards, seconds=seconds, deadline=4 * seconds)
        elif kind == "notebook":
            made = lasting(jobs.notebook(name, where, min(cards, 2)), 2 * seconds)  # ended by its user before
        else:
            of_kind = jobs.pytorch if kind == "train" else jobs.mpi
            made, limit = lasting(of_kind(name, where, pods, cards), seconds), f"{2 * seconds}s"
        (job,) = (await client.submit(made, namespace="default", time_limit=limit)).items
        self.told["submitted"] += 1
        with suppress(WaitTimeout):
            await client.wait(job, "running", timeout=dice.uniform(2, 20))
        await dice.choice((client.explain, client.job))(job)
        await dice.choice((client.jobs, client.queues, client.nodes))()
        if kind == "notebook" or dice.random() < 0.1:
            await asyncio.sleep(seconds / 2)
            await client.cancel(job)
            self.told["cancelled"] += 1
            return
        ended = await client.wait(job, timeout=1200)
        self.told[ended.phase] += 1
        with suppress(NotFound):
            await client.cancel(job)

    async def _administrator(self) -> None:
        """Cards out of work for a minute, a node kept for maintenance, a stop of some seconds; again and again."""
        turn = 0
        while self.goes_on:
            await asyncio.sleep(20)
            turn += 1
            card = f"/apis/v1/admin/nodes/a40-{turn % 4}/cards/3"
            await self._rest("PUT", card, {"cordoned": True, "why": "a fan is loud"})
            await asyncio.sleep(40)
            await self._rest("PUT", card, {"cordoned": False})
            if turn % 5 == 0:
                now = datetime.now(UTC)
                times = [f"{now + timedelta(minutes=each):%Y-%m-%dT%H:%M:%SZ}" for each in (1, 2)]
                asked = (
                    "--maintenance",
                    "--node",
                    "a40-0",
                    "--from",
                    times[0],
                    "--to",
                    times[1],
                    "--on-conflict",
                    "Wait",
                )
                await asyncio.to_thread(self._up.must, "reservations", "create", f"firmware-{turn}", *asked)
            if turn % 7 == 0:
                await self._rest("PUT", "/apis/v1/admin/stops/scheduling", {"duration": "1m", "why": "a look"})
                await asyncio.sleep(5)
                await self._rest("DELETE", "/apis/v1/admin/stops/scheduling")

    async def _rest(self, method: str, path: str, body: Json | None = None) -> None:
        while True:
            status, told = await asyncio.to_thread(self._up.rest, method, path, body)
            if status != 503:
                break
            self.told["refused Unavailable"] += 1
            await asyncio.sleep(2)
        assert status < 300, (path, told)
        self.told["administered"] += 1


def judged(server: prometheus.Prometheus, start: float, end: float) -> Json:
    """What the server says of the time between: alerts that fired or nearly did, faulty rules, panels without data."""
    alerts: dict[str, Counter[str]] = {"firing": Counter(), "pending": Counter()}
    for labels, samples in server.over("ALERTS", start, end, EVERY):
        alerts[labels["alertstate"]][labels["alertname"]] += EVERY * len(samples)
    rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    asked = list(prometheus.queries())
    scrape = "max_over_time(max(scrape_duration_seconds)[{0}s:{1}s])"
    return {
        "seconds": round(end - start),
        "rules": len(rules),
        "faulty_rules": [rule["name"] for rule in rules if rule["health"] != "ok"],
        "firing_seconds": dict(alerts["firing"]),
        "pending_seconds": dict(alerts["pending"]),
        "panels": len({title for title, _ in asked}),
        "empty_panels": [title for title, expression in asked if not server.over(expression, start, end, EVERY)],
        "scrapes_missed": sum(
            value == 0 for _, samples in server.over("up", start, end, EVERY) for _, value in samples
        ),
        "longest_scrape_seconds": server.now(scrape.format(round(end - start), EVERY))[0][1],
        "series": server.now('count({job="t9ksched"})')[0][1],
    }


def faults_of_style(up: Up) -> list[str]:
    """What promtool finds in the page, but for the old name that is kept."""
    promtool = prometheus.program("promtool")
    assert promtool is not None, "it comes with prometheus"
    with urlopen(Request(f"{up.server}/metrics", headers={"Authorization": f"Bearer {up.token}"}), timeout=60) as page:
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=page.read(), capture_output=True, check=False, timeout=60
        )
    told = (checked.stdout + checked.stderr).decode().splitlines()
    return [line for line in told if not line.startswith(NODE_REQUESTS.name)]


def test_no_alert_fires_and_every_panel_has_data(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONFIGURATION)
    up = Up(tmp_path / "data", "--scheduler-conf", str(conf))
    try:
        for body in (
            queue("a100", 32, A100, preemptible=True),
            queue("a40", 16, A40),
            queue("urgent", 16, A100, priority=50),
        ):
            assert up.rest("POST", "/apis/v1/admin/queues", body)[0] == 201
        tokens = [
            up.rest("POST", "/apis/v1/admin/tokens", {"name": f"u{at}", "role": "user"})[1]["token"]
            for at in range(USERS)
        ]
        target = {
            "job_name": "t9ksched",
            "authorization": {"credentials": up.token},
            "static_configs": [{"targets": [up.server.removeprefix("http://")]}],
        }
        load = Load(up, SECONDS)
        with prometheus.serving(tmp_path, [target], EVERY) as server:
            until(lambda: server.now("up == 1"), "a first scrape")
            start = time.time()
            asyncio.run(load.run(tokens))
            report = judged(server, start, time.time()) | {"load": dict(load.told), "faults": load.faults}
            report["style"] = faults_of_style(up)
        print(json.dumps(report, indent=1))  # noqa: T201
        if REPORT:
            Path(REPORT).write_text(json.dumps(report, indent=1))
        assert up.audit().ok, str(up.audit())
        assert load.told["submitted"] > SECONDS / 30, "the load was a load"
        assert load.faults == []
        assert report["faulty_rules"] == []
        assert report["firing_seconds"] == {}
        assert report["empty_panels"] == []
        assert report["scrapes_missed"] == 0
        assert report["style"] == []
    finally:
        up.stop()
