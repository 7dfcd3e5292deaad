"""Commands of Slurm answer with ours, and do nothing."""

import shlex

import pytest
from typer.main import get_command

from t9ksched.cli.application import application
from t9ksched.cli.main import main

ANSWERS = [
    ("sbatch -p gpu -t 1-0 train.sh a 'b c'", "submit train.sh --queue gpu --time-limit 24h --args "),
    ("sbatch --time=90 --test-only x.sh", "submit x.sh --time-limit 1h30m --dry-run --image IMAGE"),
    ("sbatch -D /data x.sh", "submit x.sh --workdir /data --image IMAGE"),
    ("sbatch -t odd x.sh", "submit x.sh --time-limit odd --image IMAGE"),
    ("sbatch --wrap='echo hi'", "run --image IMAGE -- sh -c 'echo hi'"),
    ("sbatch", "submit SCRIPT --image IMAGE"),
    ("srun -n 1 --pty bash -i", "run --image IMAGE --gpus N --pty -- bash -i"),
    ("srun -n 4 --mpi=pmix python x.py --lr 1", "run --image IMAGE --gpus N --follow -- python x.py --lr 1"),
    (
        "squeue -u ann,bob -t PD,RUNNING -p gpu",
        "jobs --user ann --user bob --phase Pending --phase Running --queue gpu",
    ),
    ("squeue --me -i 5", "jobs --mine --watch"),
    ("squeue -j job/a", "explain job/a"),
    ("squeue -o '%i %j'", "jobs -o wide"),
    ("scancel 17 job/a", "cancel KIND/NAME job/a"),
    ("scancel", "cancel KIND/NAME"),
    ("sinfo -N -n a100-0", "nodes a100-0"),
    ("sacct -u ann -r gpu --format=JobID", "history --user ann --queue gpu"),
    ("sacct -j 17", "history KIND/NAME"),
    ("sacct -s F,CD -S 7d", "history --phase Failed --phase Succeeded --since 7d"),
    ("scontrol show job 17", "explain KIND/NAME"),
    ("scontrol show node a100-0", "nodes a100-0"),
    ("scontrol show partition gpu", "queues get gpu"),
    ("scontrol show res", "--help"),
    ("scontrol show reservations", "reservations list"),
    ("scontrol suspend 17", "pause KIND/NAME"),
    ("scontrol requeue job/a", "resubmit job/a"),
    ("scontrol hold", "hold KIND/NAME"),
    ("scontrol hold 17", "hold KIND/NAME"),
    ("scontrol release job/a", "release job/a"),
    ("scontrol update JobId=17 TimeLimit=2h", "update KIND/NAME --time-limit 2h"),
    ("scontrol update JobId=17 Priority=3", "prioritise KIND/NAME --priority 0…100"),
    ("scontrol update PartitionName=gpu State=DOWN", "queues close gpu"),
    ("scontrol update NodeName=n1 State=DRAIN", "nodes n1 cordon --gpu INDEX"),
    ("scontrol create reservation users=a", "reservations create NAME"),
    ("scontrol reconfigure", "--help"),
    ("scontrol", "--help"),
]


@pytest.mark.parametrize(("theirs", "ours"), ANSWERS)
def test_each_is_answered_with_a_command_that_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, theirs: str, ours: str
) -> None:
    monkeypatch.setattr("sys.argv", ["t9ksched", *shlex.split(theirs)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    command = " ".join(told.err.split()).split("Here it is: ")[1]
    assert command.startswith(f"t9ksched {ours}")
    place = get_command(application())
    for word in ours.partition(" -- ")[0].split():
        if word in getattr(place, "commands", {}):
            place = place.commands[word]  # type: ignore[attr-defined]
        elif word.startswith("--") and word != "--help":
            assert any(word in one.opts for one in place.params), word


def test_they_are_not_listed_and_their_help_says_what_they_are_here() -> None:
    hidden = {name for name, one in get_command(application()).commands.items() if one.hidden}  # type: ignore[attr-defined]
    assert hidden == {"sbatch", "srun", "squeue", "scancel", "sinfo", "sacct", "scontrol"}
