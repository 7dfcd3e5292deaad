"""What simulated containers write, on virtual time: told from the pod alone."""

import asyncio
from typing import Any

import pytest

from t9ksched.devcluster.nodes.containerlog import ContainerLog, NotReadable, again, instance_of
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import EXIT, RUN, World, container, pod, world

LINES = "devcluster.tensorstack.dev/log-lines"


async def read(w: World, name: str, which: str = "main", *, previous: bool = False) -> list[str]:
    found = await w.get(name)
    log = ContainerLog(found, which, instance_of(found, which, previous=previous))
    return [text for _, text in log.written(0, log.count(w.now()))]


@on_virtual_time
async def test_a_line_a_second_while_it_runs_and_none_later() -> None:
    async with world() as w:
        main = {**container(), "command": ["python", "train.py"], "args": ["--name", "a b"]}
        await w.run(pod("a", containers=[main], annotations={RUN: "3"}), "gpu-a")
        assert await read(w, "a") == ["simulated: python train.py --name 'a b'"]
        await asyncio.sleep(1)
        assert (await read(w, "a"))[1:] == ["step 1"]
        await asyncio.sleep(60)
        assert (await read(w, "a"))[1:] == ["step 1", "step 2"]


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ("\n\nlast", ["", "", "last"]),
        ("", [""]),
        ("2", ["simulated: the command of image example/image:1", "step 1", "step 2"]),
        ("0", ["simulated: the command of image example/image:1"]),
    ],
)
def test_lines_of_the_annotation_are_there_at_once_and_stay(value: str, lines: list[str]) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.run(pod("a", annotations={RUN: "5", LINES: value}), "gpu-a")
            assert await read(w, "a") == lines
            await asyncio.sleep(60)
            assert await read(w, "a") == lines

    scenario()


@on_virtual_time
async def test_a_restarted_container_has_a_log_of_its_own_and_a_previous_one() -> None:
    async with world() as w:
        await w.run(pod("a", restart="Always", annotations={RUN: "4", EXIT: "1"}), "gpu-a")
        with pytest.raises(NotReadable, match='previous terminated container "main" in pod "a" not found'):
            await read(w, "a", previous=True)
        before = await w.get("a")
        instance = instance_of(before, "main")
        await asyncio.sleep(4)
        assert len(await read(w, "a")) == 1
        assert len(await read(w, "a", previous=True)) == 4
        ended = again(await w.get("a"), "main", instance)
        assert ended is not None
        assert ended.ended is not None
        await asyncio.sleep(4)  # it waits to be started a second time: the newest log is that of the run that ended
        now = await w.get("a")
        assert "waiting" in now["status"]["containerStatuses"][0]["state"]
        assert len(await read(w, "a")) == 4
        assert again(now, "main", instance) is None
        await w.restart()
        await asyncio.sleep(11)
        assert len(await read(w, "a", previous=True)) == 4, "the new kubelet knows when the last run was"


@on_virtual_time
async def test_a_log_that_is_not_there_is_told_as_a_kubelet_does() -> None:
    async def why(name: str, which: str = "main") -> str:
        with pytest.raises(NotReadable) as caught:
            await read(w, name, which)
        return str(caught.value)

    async with world() as w:
        await w.run(pod("queued"))
        assert await why("queued") == 'container "main" in pod "queued" is waiting to start: ContainerCreating'
        missing = {**container(), "image": "registry.invalid/x"}
        await w.run(pod("missing", containers=[missing]), "gpu-a")
        assert (await why("missing")).endswith("is waiting to start: trying and failing to pull image")
        faulty = {**container(), "image": "NO"}
        await w.run(pod("faulty", containers=[faulty]), "gpu-a")
        assert (await why("faulty")).endswith("is waiting to start: InvalidImageName")
        await w.run(pod("refused", gpu=9), "gpu-a", main="0")
        assert await why("refused") == 'container "main" in pod "refused" is not available'


@on_virtual_time
async def test_an_init_container_writes_its_command_alone() -> None:
    async with world() as w:
        first: dict[str, Any] = {**container("init"), "command": ["true"]}
        beside = {**container("proxy"), "restartPolicy": "Always"}
        await w.run(pod("a", initContainers=[first, beside], annotations={LINES: "x\ny"}), "gpu-a")
        assert await read(w, "a", "init") == ["simulated: true"]
        assert await read(w, "a", "proxy") == ["x", "y"]
