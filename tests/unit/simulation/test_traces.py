"""Reading recorded jobs: what each format means, and what is wrong with a file that is not in it."""

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.simulation.job import Job
from t9ksched.simulation.traces import Trace, read

MURI = "job_id,num_gpu,submit_time,iterations,iteration_time,priority\n"
PHILLY = "job_id,user,num_gpu,submit_time,duration\n"


def swf(job: int, **fields: float) -> str:
    """A line of the Standard Workload Format; fields are `f1` to `f18`, unknown (-1) where they are not given."""
    words = [str(fields.get(f"f{at}", -1)) for at in range(1, 19)]
    words[0] = str(job)
    return " ".join(words) + "\n"


ASKED = swf(1, f2=3, f4=60, f5=8, f8=16, f9=120, f12=4)


@pytest.mark.parametrize(
    ("form", "lines", "jobs", "left_out"),
    [
        ("muri", [MURI, "a,4,5000,10,500,1\n"], (Job("a", 0, 5, 4, priority=1),), 0),
        ("philly", [PHILLY, "a,ann,2,7,30\n", "b,bob,0,8,30\n"], (Job("a", 0, 30, 2, user="ann"),), 1),
        ("philly", [PHILLY, "b,x,1,9,30\n", "a,x,2,7,30\n"], (Job("a", 0, 30, 2, "x"), Job("b", 2, 30, 1, "x")), 0),
        ("swf", ["; Computer: x\n", "\n", ASKED], (Job("1", 0, 60, 16, "4", 0, 120),), 0),
        ("swf", [swf(1, f2=0, f4=60, f5=8, f12=4), swf(2, f2=1, f4=0, f5=8)], (Job("1", 0, 60, 8, "4"),), 1),
    ],
    ids=["muri in milliseconds", "no cards", "in order of submission", "swf asked for", "swf used"],
)
def test_a_file_of_jobs(form: str, lines: list[str], jobs: tuple[Job, ...], left_out: int) -> None:
    assert read(form, lines) == Trace(jobs, left_out)


@pytest.mark.parametrize(
    ("form", "lines", "path", "message"),
    [
        ("csv", [], "format", "'csv' is unknown: the formats are history, muri, philly, snapshot, swf"),
        ("muri", [PHILLY], "line 1", "the header lacks iterations, iteration_time"),
        ("muri", [], "line 1", "the header lacks job_id"),
        ("muri", [MURI, "a,4,0,10,500,1\n", "b,four,0,10,500,1\n"], "line 3, num_gpu", "'four' must be a number"),
        ("muri", [MURI, "a,4\n"], "line 2, submit_time", "'' must be a number"),
        ("philly", [PHILLY, "a,ann,2,nan,30\n"], "line 2, submit_time", "'nan' must be a number of at most 1e+15"),
        ("philly", [PHILLY, "a,ann,2,1e300,30\n"], "line 2, submit_time", "'1e300' must be a number of at most 1e+15"),
        ("philly", [PHILLY, 'a,"ann"x,2,7,30\n'], "line 2", "it is no CSV: ',' expected after"),
        ("philly", [PHILLY], "jobs", "no job in it can be replayed"),
        ("swf", ["1 2 3\n"], "line 1", "it has 3 fields: a job has 18"),
        ("swf", [swf(1).replace("-1", "x", 1)], "line 1, field 2", "'x' must be a number"),
    ],
)
def test_what_is_wrong_with_a_file(form: str, lines: list[str], path: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(form, lines)
    (fault,) = caught.value.errors
    assert fault.path == path
    assert message in fault.message
