"""The demo, as programs and people without a terminal see it."""

from concurrent.futures import ThreadPoolExecutor

from tests.acceptance.conftest import run


def test_two_demos_at_once_both_end_well() -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda _: run("demo", "-o", "json"), range(2)):
            assert done.code == 0, (done.out, done.err)
            told = done.json
            assert told["ok"] is True
            assert len(told["scenes"]) >= 5
            assert all(scene["ok"] and scene["steps"] for scene in told["scenes"])
            assert told["score"]["gangs"] >= 4
            assert (told["score"]["partialGangs"], told["score"]["doubleCards"]) == (0, 0)


def test_the_demo_of_parts_of_cards_ends_well() -> None:
    done = run("demo", "--preset", "sharing", "-o", "json")
    assert done.code == 0, (done.out, done.err)
    told = done.json
    assert [len(scene["steps"]) for scene in told["scenes"]] == [1, 3, 2, 3, 1]
    assert told["score"]["gangs"] == 5
    assert (told["score"]["partialGangs"], told["score"]["doubleCards"]) == (0, 0)
    assert run("demo", "--preset", "huge").code == 2


def test_without_a_terminal_it_prints_plain_lines() -> None:
    done = run("demo", also={"TERM": "dumb"})
    assert done.code == 0, done.out + done.err
    assert "\x1b" not in done.out
    assert "why: InsufficientResources" in done.out
    assert "OverQuota" in done.out
    assert "why: PlannedStart: planned to start at 20" in done.out
    assert "was the latest" in done.out
    assert "0 cards given twice" in done.out
    assert "Try next" in done.out
