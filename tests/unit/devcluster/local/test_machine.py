"""This machine as a node, its cards, and the end of a log."""

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from t9ksched.devcluster.local import cgroups, gpus
from t9ksched.devcluster.local.cgroups import Cgroups, Limits
from t9ksched.devcluster.local.logfile import LogReader, last_words
from t9ksched.devcluster.local.machine import node_name
from t9ksched.devcluster.local.supervisor import LOG, OLD_LOG

MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100")


def nvml(sliced: tuple[int, ...] = (), fault: str = "") -> Any:
    """A library for cards."""
    module: Any = types.ModuleType("pynvml")
    module.NVMLError = type("NVMLError", (Exception,), {})
    for name in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded"):
        setattr(module, name, type(name, (module.NVMLError,), {}))

    def begin() -> None:
        if fault:
            raise getattr(module, fault)(fault)

    module.nvmlInit, module.nvmlShutdown = begin, lambda: None
    module.nvmlDeviceGetCount = lambda: len(MODELS)
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda card: MODELS[card].encode()  # as older versions answer
    module.nvmlDeviceGetUUID = lambda card: f"GPU-{card}abc"
    module.nvmlDeviceGetMemoryInfo = lambda card: types.SimpleNamespace(total=80 << 30)
    module.nvmlDeviceGetMigMode = lambda card: (int(card in sliced), 0)
    return module


def cards(patch: pytest.MonkeyPatch, module: Any, **environment: str) -> gpus.Found:
    patch.setitem(sys.modules, "pynvml", module)
    return gpus.find(environment)


def test_cards_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cards(monkeypatch, nvml())
    assert [(card.index, card.model, card.memory) for card in found.cards] == [
        (index, model, 81920) for index, model in enumerate(MODELS)
    ]
    assert found.notes == ("the cards differ, and all are told as the model of the first",)
    found = cards(monkeypatch, nvml(sliced=(0,)))
    assert [card.index for card in found.cards] == [1, 2]
    assert "card 0 (NVIDIA A100-SXM4-80GB) is in MIG mode" in found.notes[0]


@pytest.mark.parametrize(("visible", "indices"), [("1", [1]), ("0,2", [0, 2]), ("GPU-1a", [1]), ("", []), ("7", [])])
def test_only_visible_cards_are_offered(monkeypatch: pytest.MonkeyPatch, visible: str, indices: list[int]) -> None:
    found = cards(monkeypatch, nvml(), CUDA_VISIBLE_DEVICES=visible)
    assert [card.index for card in found.cards] == indices
    assert f"{3 - len(indices)} of 3 cards are not offered" in found.notes[-1]


@pytest.mark.parametrize("fault", ["NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded"])
def test_no_driver_is_no_fault(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    assert cards(monkeypatch, nvml(fault=fault)) == gpus.Found()
    assert cards(monkeypatch, nvml(fault="NVMLError")).notes == ("NVIDIA cards cannot be seen: NVMLError",)


@pytest.mark.parametrize(
    ("host", "name"), [("Box.Example.COM", "box.example.com"), ("a_b", "a-b"), ("---", "here"), ("x" * 80, "x" * 57)]
)
def test_names_of_nodes(host: str, name: str) -> None:
    assert node_name(host) == name


def test_limits_of_both_versions_of_cgroups(tmp_path: Path) -> None:
    for unified in (True, False):
        base = tmp_path / str(unified)
        base.mkdir()
        groups = Cgroups({"cpu": base, "memory": base}, unified=unified)
        assert groups.make("c", Limits(1500, 1 << 30, 500)) == [str(base / "c" / "cgroup.procs")]
        written = {path.name: path.read_text() for path in (base / "c").iterdir()}
        if unified:
            assert written["memory.max"] == str(1 << 30)
            assert written["cpu.max"] == "150000 100000"
        else:
            assert written["memory.limit_in_bytes"] == str(1 << 30)
            assert (written["cpu.cfs_quota_us"], written["cpu.shares"]) == ("150000", "512")
        events = base / "c" / ("memory.events" if unified else "memory.oom_control")
        events.write_text("oom 1\noom_kill 0\n")
        assert not groups.out_of_memory("c")
        events.write_text("oom 1\noom_kill 2\n")
        assert groups.out_of_memory("c")
    assert not Cgroups({}, unified=False).out_of_memory("c")


def test_a_machine_without_cgroups_keeps_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_lines", lambda path: [])
    assert cgroups.find("x").kinds == ()
    assert cgroups.find("x").make("c", Limits(1, 1)) == []


def line(number: int) -> bytes:
    return b"2026-11-28T12:00:%02d.000000000Z stdout F line %d\n" % (number % 60, number)


def texts(reader: LogReader) -> list[str]:
    return [one.text.decode() for one in reader.lines()]


def test_logs_are_read_on_over_a_new_file(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(line(1) + line(2))
    reader = LogReader(tmp_path)
    assert texts(reader) == ["line 1\n", "line 2\n"]
    with (tmp_path / LOG).open("ab") as file:
        file.write(line(3) + line(4)[:20])
    assert texts(reader) == ["line 3\n"]
    with (tmp_path / LOG).open("ab") as file:
        file.write(line(4)[20:])
    os.replace(tmp_path / LOG, tmp_path / OLD_LOG)
    (tmp_path / LOG).write_bytes(line(5))
    assert texts(reader) == ["line 4\n", "line 5\n"]
    reader.close()
    for tail, first in ((0, 6), (1, 5), (2, 4), (5, 1), (9, 1)):
        other = LogReader(tmp_path, tail)
        assert texts(other) == [f"line {number}\n" for number in range(first, 6)]
        other.close()
    since = LogReader(tmp_path, since=1795867203.0)  # 12:00:03
    assert texts(since) == [f"line {number}\n" for number in (3, 4, 5)]
    since.close()
    assert last_words(tmp_path, most_bytes=9) == "4\nline 5"
    assert LogReader(tmp_path / "none").lines is not None
