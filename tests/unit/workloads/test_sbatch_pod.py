"""What lies beside a script in its pods: how its tasks start, and how signals reach them, in any shell."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from t9ksched.workloads.compose.sbatch.options import FLAG, LETTERS, OPTIONS, VALUE
from t9ksched.workloads.compose.sbatch.shims import programs

SHELLS = {"sh": "/bin/sh", "bash": "/bin/bash --posix"} | (
    {"busybox": f"{busybox} sh"} if (busybox := shutil.which("busybox")) else {}
)
SAVES = """import signal, sys, time
def save(number, frame):
    for one in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(one, lambda *_: print("told again", flush=True))
    time.sleep(0.3)
    print("saved", signal.Signals(number).name, flush=True)
    sys.exit(7)
for one in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(one, save)
print("up", flush=True)
while True:
    time.sleep(60)
"""


class Pod:
    """The files of a script in a folder, as a pod has them."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        for name, text in programs().items():
            (folder / name).write_text(text.replace("#!/bin/sh", f"#!{SHELLS[shell]}", 1))
            (folder / name).chmod(0o755)
        (folder / "saves.py").write_text(SAVES)

    def start(self, script: str, env: dict[str, str], stdin: str | None = None) -> subprocess.Popen[str]:
        (self.folder / "script").write_text(f"#!/bin/bash\n{script}\n")
        (self.folder / "script").chmod(0o755)
        known = {"PATH": os.environ["PATH"], "SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS": "4", "SLURM_NNODES": "2"}
        return subprocess.Popen(
            [str(self.folder / "start"), "one", "two words"],
            env=known | {"SLURM_JOB_ID": "fit-x", "SLURM_JOB_NAME": "fit"} | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )

    def run(self, script: str, **env: str) -> tuple[int, list[str], list[str]]:
        """Exit code, and the lines of both streams, sorted."""
        process = self.start(script, env)
        out, err = process.communicate(timeout=60)
        return process.returncode, sorted(out.splitlines()), sorted(err.splitlines())

    def told(self, script: str, number: int = signal.SIGTERM, ups: int = 1, **env: str) -> tuple[int, list[str]]:
        """Exit code and lines of a script that gets a signal once so many of its processes are up."""
        process = self.start(script, env)
        assert process.stdout is not None
        lines = []
        while lines.count("up") < ups:
            lines.append(process.stdout.readline().rstrip("\n"))
            assert lines[-1], lines
        os.kill(process.pid, number)
        out, _ = process.communicate(timeout=60)
        assert members(process.pid) == []
        return process.returncode, sorted(line for line in [*lines, *out.splitlines()] if line != "up")


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        state, _, _, leader = text[text.rindex(")") + 2 :].split()[:4]
        if int(leader) == session and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.fixture(params=SHELLS)
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Pod:
    return Pod(tmp_path, request.param)


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_the_script_runs_with_its_arguments_and_srun_starts_the_tasks_of_its_pod(pod: Pod) -> None:
    task = "echo task $SLURM_PROCID $SLURM_LOCALID of $SLURM_NTASKS"
    script = f"echo \"$# $2 $SLURM_PROCID\"\nsrun -c 4 -J x sh -c '{task}'"
    for rank, tasks in (("0", ["task 0 0 of 4", "task 1 1 of 4"]), ("1", ["task 2 0 of 4", "task 3 1 of 4"])):
        assert pod.run(script, RANK=rank, MASTER_ADDR="m") == (0, [f"2 two words {int(rank) * 2}", *tasks], [])


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ("", "01", "23"),
        ("-n1", "0", ""),
        ("-n 2", "0", "1"),
        ("--ntasks=3", "01", "2"),
        ("-n7", "0123", "456"),
        ("--ntasks-per-node=1 --ntasks=2", "0", "1"),
        ("--tasks-per-node 3", "012", "345"),
        ("-N1", "01", ""),
        ("-N 1 -n 3", "012", ""),
        ("--nodes=1 --relative=1 -n1", "", "0"),
        ("-r1", "", "01"),
        ("-N2-2 -n2", "0", "1"),
    ],
)
def test_which_tasks_are_of_which_pod(tmp_path: Path, options: str, first: str, second: str) -> None:
    pod = Pod(tmp_path, "sh")
    for rank, tasks in (("0", first), ("1", second)):
        code, out, err = pod.run(f"srun {options} sh -c 'echo $SLURM_PROCID'", RANK=rank)
        assert (code, "".join(out), err) == (0, tasks, [])


@pytest.mark.parametrize(
    ("step", "code", "told"),
    [
        ("srun sh -c 'exit $((SLURM_PROCID + 3))'", 4, ""),
        ("srun sh -c 'kill -9 $$'", 137, ""),
        ("srun /no/such/program", 127, "/no/such/program"),
        ("srun", 1, "srun: no command is named"),
        ("srun -n", 1, "srun: -n has no value"),
        ("srun --ntasks", 1, "srun: --ntasks has no value"),
        ("srun -n x true", 1, "srun: --ntasks: 'x' is no number"),
        ("srun -N3 true", 1, "srun: --nodes: 3 pods are asked for, and there are 2"),
        ("srun -r2 true", 1, "srun: --relative: 2 is no pod of the job"),
        ("srun --no-such true", 1, "srun: --no-such is no option of srun"),
        ("srun --gpus-per true", 1, "srun: --gpus-per is no option of srun"),
        ("srun -j true", 1, "srun: -j is no option of srun"),
        ("srun --overlap=1 true", 1, "srun: --overlap takes no value"),
        ("srun --chdir=/no/such true", 1, "srun: --chdir: /no/such cannot be entered"),
        ("srun --output=/no/such/x true", 1, "srun: --output: /no/such/x cannot be written"),
        ("srun --multi-prog /no/such", 1, "srun: --multi-prog: /no/such cannot be read"),
        ("srun --version", 0, ""),
    ],
)
def test_exit_codes_and_what_is_said(pod: Pod, step: str, code: int, told: str) -> None:
    ended, _, err = pod.run(step)
    assert (ended, told in "\n".join(err)) == (code, True), err


@pytest.mark.parametrize(
    "options",
    [
        *("--kill-on-bad-exit", "-K", "-K1", "--propagate", "--spread-job", "--use-min-nodes", "--test-only", "-W 60"),
        *("-l -u", "-lu", "-Jx -c2", "--exclusive", "--mpi=pmix --cpu-bind=none", "--mem 4G", "--", "-T4", "--nice"),
        *("--ntasks-per-n=2", "--cpus-per-t 3", "--container-image x --container-mount-home", "--jobid=1 -A me"),
    ],
)
def test_no_option_takes_a_word_of_the_command(pod: Pod, options: str) -> None:
    code, out, _ = pod.run(f"srun -n1 {options} echo one two")
    assert (code, out) == (0, ["one two"])


def test_what_srun_knows_is_what_sbatch_has_in_common_with_it() -> None:
    """The table of the program against that of sbatch: the same letters, and values where those have some."""
    table = re.search(r'_OPTIONS="\n(.*?)\n"', programs()["srun"], re.DOTALL)
    assert table is not None
    rows = [one.split(":") for one in table[1].split()]
    assert len({name for _, name, *_ in rows}) == len(rows)
    kinds = {name: kind for _, name, kind, _ in rows}
    for letter, name, _, _ in rows:
        assert not letter or LETTERS.get(letter, name) in (name, "core-spec")
    for name in kinds.keys() & OPTIONS.keys() - {"wait", "immediate"}:
        expected = {FLAG: "f", VALUE: "v"}.get(OPTIONS[name][1], "p")
        assert kinds[name] == expected, name


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--label", "--label is not done: t9ksched logs --all writes the rank"),
        ("-l", "-l is not done: t9ksched logs"),
        ("--mpi=pmix", "--mpi=pmix is not done: processes of MPI do not find each other"),
        ("--exclusive", "--exclusive is not done: a step does not wait"),
        ("--gres gpu:1", "--gres gpu:1 is not done: a step has all cores, memory and cards"),
        ("--container-image=x", "is not done: the image"),
        ("-w a,b", "-w a,b is not done: a step cannot choose nodes"),
        ("--cpu-bind=cores", "--cpu-bind=cores is not done: it has no counterpart"),
        ("--pty", "there is no terminal"),
        ("-t 5", "a step has the time limit of the job"),
    ],
)
def test_what_is_not_done_is_said(tmp_path: Path, option: str, told: str) -> None:
    pod = Pod(tmp_path, "sh")
    code, out, (line,) = pod.run(f"srun -n1 {option} echo done")
    assert (code, out, line.startswith("srun: "), told in line) == (0, ["done"], True, True), line
    assert pod.run(f"srun -Q -n1 {option} echo done") == (0, ["done"], [])


@pytest.mark.parametrize("option", ["--mpi=none", "--unbuffered", "--overlap", "--exact", "-O", "-s", "-p gpu", "-v"])
def test_what_needs_nothing_is_not_spoken_of(tmp_path: Path, option: str) -> None:
    assert Pod(tmp_path, "sh").run(f"srun -n1 {option} echo done") == (0, ["done"], [])


def test_variables_and_directory_of_a_step(pod: Pod) -> None:
    step = "sh -c 'echo $A-$B-$C-$SLURM_PROCID'"
    before = "export A=1 B=2; "
    assert pod.run(f"{before}srun -n1 {step}")[1] == ["1-2--0"]
    assert pod.run(f"{before}srun -n1 --export=ALL,B=x,C='y z' {step}")[1] == ["1-x-y z-0"]
    assert pod.run(f"{before}srun -n1 --export=A,C=3 {step}")[1] == ["1--3-0"]
    assert pod.run(f"{before}srun -n1 --export=NONE {step}")[1] == ["---0"]
    names = "all each nodes name line code in out file place count first tasks one here script told id"
    own = " ".join(f"{name}=mine" for name in names.split())
    shown = " ".join(f"${name}" for name in names.split())
    assert pod.run(f"export {own}\nsrun -n1 sh -c 'echo {shown}'")[1] == [" ".join(["mine"] * len(names.split()))]
    assert pod.run("srun -n1 --chdir=/tmp pwd")[1] == ["/tmp"]
    assert pod.run("srun -n1 -D / pwd")[1] == ["/"]


def test_files_of_a_step(pod: Pod) -> None:
    task = "sh -c 'echo out $SLURM_PROCID; echo err >&2'"
    assert pod.run(f"srun -o x%2t-%j.log -e none {task}")[1:] == ([], [])
    assert [(pod.folder / f"x0{task}-fit-x.log").read_text() for task in (0, 1)] == ["out 0\n", "out 1\n"]
    for mode, times in (("append", 2), ("append", 4), ("truncate", 2)):
        assert pod.run(f"srun --output=%x.log --open-mode={mode} {task}")[1:] == ([], [])
        lines = (pod.folder / "fit.log").read_text().splitlines()
        assert (lines.count("err"), len(lines)) == (times, 2 * times)
    assert pod.run(f"srun --error=e {task}")[1:] == (["out 0", "out 1"], [])
    assert (pod.folder / "e").read_text() == "err\nerr\n"
    assert pod.run(f"srun -o 1 {task}")[1] == ["out 1"]
    (pod.folder / "in").write_text("given\n")
    assert pod.run("srun cat <in")[1] == ["given"] * 2
    assert pod.run("srun -i in cat")[1] == ["given"] * 2
    assert pod.run("echo piped | srun cat")[1] == ["piped"]
    assert pod.run("echo piped | srun -i none cat")[1] == []


def test_several_programs_in_a_step(pod: Pod) -> None:
    (pod.folder / "conf").write_text("# who\n0 echo 'lead  er' %t\n\n1-2,5 echo worker %t:%o $HOME*\n* echo rest %t\n")
    assert pod.run("srun -n8 --multi-prog conf", HOME="/h")[1:] == (
        ["lead  er 0", "rest 3", "worker 1:0 /h*", "worker 2:1 /h*"],
        [],
    )
    assert pod.run("srun -n8 --multi-prog conf", HOME="/h", RANK="1")[1][-1] == "worker 5:0 /h*"
    (pod.folder / "conf").write_text("0 true\n")
    code, _, (line,) = pod.run("srun --multi-prog conf")
    assert (code, line) == (1, "srun: --multi-prog: no line of conf is for task 1")


def test_each_task_sees_its_own_cards(pod: Pod) -> None:
    step = "sh -c 'echo $CUDA_VISIBLE_DEVICES'"
    assert pod.run(f"srun --gpus-per-task=2 {step}", CUDA_VISIBLE_DEVICES="0,3,5,GPU-a")[1] == ["0,3", "5,GPU-a"]
    assert pod.run(f"srun {step}", SLURM_GPUS_PER_TASK="1", SLURM_GPUS_ON_NODE="2")[1] == ["0", "1"]
    assert pod.run(f"srun {step}", CUDA_VISIBLE_DEVICES="0,3")[1] == ["0,3", "0,3"]


def test_an_array_is_told_to_the_script(pod: Pod) -> None:
    told = pod.run("echo $SLURM_ARRAY_TASK_ID $SLURM_LAUNCH_NODE_IPADDR", T9K_ARRAY_INDEX="7")
    assert told == (0, ["7 127.0.0.1"], [])


# -- signals -----------------------------------------------------------------------------------------------------------

SRUN = "srun python3 saves.py"
SCRIPT, STEPS = {"T9K_SIGNAL_TO": "script"}, {"T9K_SIGNAL_TO": "steps"}
TRAP = "trap 'echo trapped; kill -TERM $!; wait $!; echo ended $?; exit 5' TERM USR1"


@pytest.mark.parametrize(
    ("script", "env", "ups", "code", "lines"),
    [
        pytest.param(SRUN, {}, 2, 143, ["saved SIGTERM"] * 2, id="all get it, and the pod stays until all have saved"),
        pytest.param(f"{SRUN}; echo next $?", STEPS, 2, 0, ["next 7", *["saved SIGTERM"] * 2], id="the script goes on"),
        pytest.param("python3 saves.py; echo next", STEPS, 1, 0, ["next", "saved SIGTERM"], id="no step"),
        pytest.param("python3 saves.py", {}, 1, 143, ["saved SIGTERM"], id="no step, and no signal asked for"),
        pytest.param("exec python3 saves.py", {}, 1, 7, ["saved SIGTERM"], id="the script is the program"),
        pytest.param("exec python3 saves.py", STEPS, 1, 7, ["saved SIGTERM"], id="the program is all there is"),
        pytest.param(f"bash -c '{SRUN} | cat; exit 3'", STEPS, 2, 3, ["saved SIGTERM"] * 2, id="steps have a pipe"),
        pytest.param("setsid -w python3 saves.py", {}, 1, 143, ["saved SIGTERM"], id="a session of its own"),
        pytest.param("srun bash -c 'python3 saves.py; true'", {}, 2, 143, ["saved SIGTERM"] * 2, id="below a task"),
        pytest.param(SRUN, STEPS | {"T9K_SIGNAL": "USR1"}, 2, 7, ["saved SIGUSR1"] * 2, id="another signal"),
        pytest.param(
            f"{TRAP}\n{SRUN} & wait $!", SCRIPT, 2, 5, ["ended 7", *["saved SIGTERM"] * 2, "trapped"], id="the script"
        ),
        pytest.param(
            f"{TRAP}\n{SRUN} & wait $!",
            SCRIPT | {"T9K_SIGNAL": "USR1"},
            2,
            5,
            ["ended 7", *["saved SIGTERM"] * 2, "trapped"],
            id="the script by another signal",
        ),
        pytest.param(
            SRUN, SCRIPT, 2, 143, ["saved SIGTERM"] * 2, id="the script hears nothing, and what is left is told"
        ),
    ],
)
def test_who_is_told_to_stop(pod: Pod, script: str, env: dict[str, str], ups: int, code: int, lines: list[str]) -> None:
    assert pod.told(script, ups=ups, **env) == (code, lines)


def test_other_signals_are_passed_on(pod: Pod) -> None:
    assert pod.told(SRUN, signal.SIGUSR1, 2, **STEPS) == (7, ["saved SIGUSR1"] * 2)


def test_srun_by_itself_waits_for_its_tasks(pod: Pod) -> None:
    """As a script tells one step to stop."""
    script = f"{SRUN} & step=$!; while [ ! -e go ]; do sleep 0.05; done; kill -TERM $step; wait $step; echo $?"
    process = pod.start(script, {})
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["up\n"] * 2
    (pod.folder / "go").touch()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()) == (0, ["saved SIGTERM", "saved SIGTERM", "7"])


def test_the_others_end_when_one_fails(pod: Pod) -> None:
    step = "bash -c '[ $SLURM_LOCALID = 0 ] || exec python3 saves.py; sleep 1; exit 9'"
    assert pod.run(f"srun -K {step}")[:2] == (9, ["saved SIGTERM", "up"])
    assert pod.run("srun --kill-on-bad-exit=1 sh -c 'exit 0'")[0] == 0


def test_a_second_signal_is_passed_on_too(pod: Pod) -> None:
    process = pod.start("trap 'echo got' USR1 USR2; echo up; while [ ! -e go ]; do sleep 0.05; done", SCRIPT)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(process.pid, number)
        assert process.stdout.readline() == "got\n"
    (pod.folder / "go").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0
