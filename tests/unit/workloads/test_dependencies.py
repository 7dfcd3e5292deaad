"""What a job waits for: how it is written, and the ways from a job back to itself."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.workloads.dependencies import MOST, circle, read_after, written


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ""),
        (" , ", ""),
        ("Job/prep", "Job/prep"),
        ("job/prep:ok", "Job/prep"),
        ("jobs/prep:any", "Job/prep:any"),
        ("pj/a, mpijob/b:any\npo/c", "PyTorchTrainingJob/a, MPIJob/b:any, Pod/c"),
        ("Job/a, job/a", "Job/a"),
    ],
)
def test_jobs_are_named_as_people_name_them(text: str, found: str) -> None:
    assert written(read_after(text)) == found
    assert read_after(found) == read_after(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prep", "'prep' names no job: write KIND/NAME"),
        ("Job/", "'Job/' names no job"),
        ("Job/a/b", "names no job"),
        ("Job/A_B", "names no job"),
        ("Job/a:", "'Job/a:' ends in ''"),
        ("Job/a:failed", "'Job/a:failed' ends in 'failed': write :ok"),
        ("Notebook/lab", "a Notebook does not end by itself"),
        ("deploy/web", "a Deployment does not end by itself"),
        ("VirtualServer/x", "a VirtualServer does not end by itself"),
        ("Project/x", "cannot be waited for: that can be "),
        ("Wish/x", "that can be "),
        ("Job/a, Job/a:any", "Job/a is there with :ok and with :any"),
        (",".join(f"Job/j{at}" for at in range(MOST + 1)), f"there are {MOST + 1} jobs to wait for"),
        ("x" * 10_000, "xxx…' names no job"),
    ],
)
def test_what_names_no_job_that_can_be_waited_for_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        read_after(text)
    assert len(str(error.value)) < 250


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3)))
def test_a_way_back_is_found_where_there_is_one(waits: Mapping[str, list[str]]) -> None:
    reach = {at: set(waits.get(at, ())) for at in "abcdef"}
    for _ in reach:
        reach = {at: set(to).union(*(reach[one] for one in to)) for at, to in reach.items()}
    for at in "abcdef":
        way = circle(waits, at)
        assert bool(way) == (at in reach[at])
        if way:
            assert way[0] == at
            assert all(other in waits[one] for one, other in zip(way, (*way[1:], at), strict=True))
