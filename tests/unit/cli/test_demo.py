import pytest
from rich.console import Console

from t9ksched.cli.cards import Palette
from t9ksched.cli.demo.perform import left_partial
from t9ksched.cli.demo.picture import Picture
from t9ksched.cli.demo.record import Recording, SceneRecord, Score, Step
from t9ksched.devcluster.audit.auditor import AuditReport, PartialGang

GOOD = Score(gangs=3, seconds=41.23)


@pytest.mark.parametrize(
    ("scenes", "score", "ok"),
    [
        ([SceneRecord("a", [Step("x", True)])], GOOD, True),
        ([SceneRecord("a", [Step("x", True), Step("y", False)])], GOOD, False),
        ([SceneRecord("a", [Step("x", None)])], GOOD, False),
        ([SceneRecord("a", [])], GOOD, False),
        ([], GOOD, False),
        ([SceneRecord("a", [Step("x", True)])], Score(gangs=3, double_cards=1), False),
        ([SceneRecord("a", [Step("x", True)])], Score(gangs=3, partial_gangs=1), False),
        ([SceneRecord("a", [Step("x", True)])], Score(), False),
    ],
)
def test_the_demo_is_good_only_when_all_of_it_is(scenes: list[SceneRecord], score: Score, ok: bool) -> None:
    assert Recording(scenes, score).ok is ok


@pytest.mark.parametrize(
    ("seen", "left"),
    [([[]], set()), ([["v/a", "v/b"], ["v/b"], []], set()), ([["v/a", "v/b"], ["v/b"]], {"v/b"})],
)
async def test_a_gang_in_the_middle_of_binding_is_not_partial(seen: list[list[str]], left: set[str]) -> None:
    reports = [AuditReport(partial_gangs=tuple(PartialGang(name, 1, 2) for name in names)) for names in seen]
    assert await left_partial(lambda: reports.pop(0) if len(reports) > 1 else reports[0], pause=0) == left


def test_the_json_of_a_demo() -> None:
    recording = Recording([SceneRecord("a", [Step("x", True, "not for programs")])], GOOD)
    assert recording.to_json() == {
        "ok": True,
        "scenes": [{"name": "a", "ok": True, "steps": [{"what": "x", "ok": True}]}],
        "score": {"partialGangs": 0, "doubleCards": 0, "gangs": 3, "seconds": 41.2},
    }


def test_the_map_without_colour_still_says_whose_card_it_is() -> None:
    def node(name: str, model: str, *jobs: str | None) -> dict[str, object]:
        holders = [[{"namespace": "v", "pod": "p", "job": job}] if job else [] for job in jobs]
        return {
            "name": name,
            "gpus": [{"index": i, "model": model, "holders": held} for i, held in enumerate(holders)],
        }

    job = {
        "namespace": "v",
        "kind": "MPIJob",
        "name": "walk",
        "queue": "a40",
        "phase": "Running",
        "members": {"running": 2, "total": 2},
    }
    picture = Picture(Recording([SceneRecord("Scene", [Step("done", True, "why: so")])]), Palette(False))
    picture.nodes = [node("a100-0", "A100", "Notebook/lab", None), node("a40-0", "A40", "MPIJob/walk", None)]
    picture.jobs = [job]
    console = Console(width=100, no_color=True, record=True, file=None, force_terminal=False, _environ={})
    with console.capture() as captured:
        console.print(picture)
    text = captured.get()
    assert "a100-0    A ." in text
    assert "a40-0     B ." in text
    assert "B  MPIJob/walk" in text
    assert "2/2 Running" in text
    assert "A  Notebook/lab" in text
    assert "why: so" in text
