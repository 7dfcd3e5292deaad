"""Plugins of installed packages: how they are found, made, and what is told when one fails."""

from pathlib import Path
from typing import Any

import pytest

from t9ksched.engine.plan import PluginFault
from t9ksched.engine.planner import plan
from t9ksched.engine.plugins import GangOrder, NodeFilter, NodeScore
from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.model.errors import Invalid
from t9ksched.scheduler.decide.plugins import EVENT_FAILED, EVENT_SLOW, PluginWatch, Slow, installed
from tests.builders import gang, node, view
from tests.integration.scheduler.plugged import EXAMPLE, install

CONF = """\
actions: allocate
tiers:
- plugins:
  - name: basic
  - name: predicates
  - name: affinity
  - name: maintenance
    arguments: {ARGUMENTS}
"""


@pytest.fixture(autouse=True)
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return install(EXAMPLE, tmp_path / "site", monkeypatch)


def conf(arguments: str) -> Any:
    return parse_conf(CONF.replace("{ARGUMENTS}", arguments), installed())


def test_the_example_is_found_by_its_entry_point() -> None:
    assert "maintenance" in installed()
    (use,) = conf("{weight: 5}").plugins
    assert isinstance(use.plugin, NodeFilter)
    assert isinstance(use.plugin, NodeScore)
    assert use.weight == 5


@pytest.mark.parametrize(("strict", "places"), [("false", ["n1", "n0"]), ("true", ["n1"])])
def test_the_example_does_what_it_says(strict: str, places: list[str]) -> None:
    nodes = [node("n0", cpu=1, labels={"service": "soon"}), node("n1", cpu=1)]
    policy = conf(f"{{label: service, strict: {strict}}}")
    found = plan(view(nodes, [gang("a", cpu=1), gang("b", cpu=1)]), policy, 0)
    assert [one.node for one in found.assignments] == places
    assert found.faults == ()


@pytest.mark.parametrize(
    ("arguments", "says"), [("{colour: red}", "colour: use label and strict"), ("{strict: 1}", "must be true or false")]
)
def test_wrong_arguments_are_refused_with_their_line(arguments: str, says: str) -> None:
    with pytest.raises(Invalid) as error:
        conf(arguments)
    assert error.value.errors[0].path.startswith("line 8, tiers[0].plugins[3]")
    assert says in error.value.errors[0].message


def test_our_own_names_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "impostor.py").write_text("def make(arguments): raise SystemExit\n")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "impostor"\nversion = "1"\n'
        '[project.entry-points."t9ksched.plugins"]\nbinpack = "impostor:make"\nmaintenance = "zzz:make"\n'
        'gone = "nowhere:make"\nleaves = "impostor:make"\n'
        '[tool.setuptools]\npy-modules = ["impostor"]\n'
    )
    install(project, tmp_path / "other", monkeypatch)
    found = installed()
    assert "binpack" not in found
    assert conf("{}").plugins[0].name == "maintenance", "of two alike the first counts"
    for name, says in (("gone", "ModuleNotFoundError"), ("leaves", "SystemExit")):
        with pytest.raises(Invalid, match=says):
            parse_conf(CONF.replace("maintenance", name).replace("{ARGUMENTS}", "{}"), found)


def test_a_failure_is_told_once_until_it_is_over() -> None:
    told: list[tuple[str, str]] = []

    class EventWriter:
        def event(self, item: Any, reason: str, message: str, *, warning: bool = False) -> None:
            told.append((reason, message))

    watch = PluginWatch(EventWriter(), dict)  # type: ignore[arg-type]
    fault = PluginFault("mine", "score", "RuntimeError: no")
    for faults in ((fault,), (fault,), (), (fault,)):
        watch.cycle(faults)
    assert watch.failures == {"mine": 3}
    assert told == [(EVENT_FAILED, "plugin 'mine' is off while its score fails: RuntimeError: no")] * 2


def test_a_plugin_that_is_slow_again_and_again_is_told_of_once() -> None:
    told: list[tuple[str, str]] = []

    class EventWriter:
        def event(self, item: Any, reason: str, message: str, *, warning: bool = False) -> None:
            told.append((reason, message))

    class Mine:
        def score(self, pod: Any, node: Any) -> int:
            times.append(times[-1] + node)
            return 7

        def allows(self, pod: Any, node: Any) -> bool:
            raise RuntimeError("no")

    times = [0.0]
    slow = Slow(lambda: times[-1])
    watch = PluginWatch(EventWriter(), dict, slow)  # type: ignore[arg-type]
    plugin: Any = slow.watched("mine", Mine())
    assert isinstance(plugin, NodeScore)
    assert isinstance(plugin, NodeFilter)
    assert not isinstance(plugin, GangOrder)
    with pytest.raises(RuntimeError, match="no"):
        plugin.allows(None, None)
    for seconds in (0.04, 0.06, 0.3, 0.07, 0.08):
        assert plugin.score(None, seconds) == 7
        watch.cycle(())
    assert slow.answers == {"mine": 4}
    assert told == [(EVENT_SLOW, "plugin 'mine' is slow: its score took 300 ms, and nothing is decided meanwhile")]
