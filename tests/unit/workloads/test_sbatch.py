"""Scripts with `#SBATCH` lines: how they are read, what each line becomes, and what runs in their pods."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    GPU_MODEL_ANNOTATION,
    GROUP_LABEL,
    QUEUE_LABEL,
    RESERVATION_ANNOTATION,
    SIGNAL_BEFORE_ANNOTATION,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.workloads.compose.sbatch import words
from t9ksched.workloads.compose.sbatch.features import features_of
from t9ksched.workloads.compose.sbatch.lines import LARGEST, read_script
from t9ksched.workloads.compose.sbatch.meanings import MEANINGS, REFUSED, UNMET
from t9ksched.workloads.compose.sbatch.options import FLAG, OPTIONS
from t9ksched.workloads.compose.sbatch.plan import Around, Label, Model
from t9ksched.workloads.compose.sbatch.translation import Translation, translate
from t9ksched.workloads.read import validate

NOON = datetime(2030, 1, 31, 12, 0, tzinfo=timezone(timedelta(hours=8)))
NODES = [
    {
        "labels": {
            "kubernetes.io/hostname": "n1",
            "feature.node.kubernetes.io/ib": "true",
            "zone": "east",
            "ssd": "true",
        },
        "gpus": [{"model": "NVIDIA-A100-SXM4-80GB"}],
    },
    {"labels": {"kubernetes.io/hostname": "n2", "zone": "west", "a": "both", "b": "both"}, "gpus": [{"model": "H100"}]},
]


def translated(*lines: str, body: str = "srun true", **around: Any) -> Translation:
    text = "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), body, ""])
    given = {"environment": {"SET": "here"}, "features": features_of(NODES), "image": "i"} | around
    return translate(read_script(text.encode()), Around(name="fit-x", now=NOON, **given))


def pod(found: Translation) -> dict[str, Any]:
    spec = found.objects[0]["spec"]
    return dict(spec.get("template") or spec["replicaSpecs"][0]["template"])


def container(found: Translation) -> dict[str, Any]:
    return dict(pod(found)["spec"]["containers"][0])


def environment(found: Translation) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container(found)["env"]}


def becomes(found: Translation) -> dict[str, str]:
    return {one.written: one.becomes for one in found.told}


def refusal(*lines: str, **around: Any) -> str:
    with pytest.raises(Invalid) as told:
        translated(*lines, **around)
    return str(told.value)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("-N2", [("nodes", "2")]),
        ("-N 2 -n 4", [("nodes", "2"), ("ntasks", "4")]),
        ("--nodes=2 --exclusive", [("nodes", "2"), ("exclusive", None)]),
        ("--nodes 2 # of the rack", [("nodes", "2")]),
        ("--job-name='a b'", [("job-name", "a b")]),
        ("-QO -J x", [("quiet", None), ("overcommit", None), ("job-name", "x")]),
        ("--tasks-per-node=3", [("ntasks-per-node", "3")]),
        ("--exclusive=user", [("exclusive", "user")]),
        ("--constr=a", [("constraint", "a")]),
        ("-t=5", [("time", "5")]),
        ("", []),
    ],
)
def test_options_are_read_as_sbatch_reads_them(line: str, options: list[tuple[str, str | None]]) -> None:
    script = read_script(f"#!/bin/sh\n\n# x\n#SBATCH {line}\ntrue\n".encode())
    assert [(one.name, one.value) for one in script.options] == options
    assert {one.line for one in script.options} <= {4}


def test_lines_behind_the_first_command_and_comments_are_none() -> None:
    script = read_script(b"#!/bin/sh\n##SBATCH -N2\n#SBATCHX\n  # SBATCH -N3\n#SBATCH -N4\nset -e\n#SBATCH -N5\n")
    assert [(one.line, one.value) for one in script.options] == [(5, "4")]
    assert script.late == (7,)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"#!/bin/sh\n#SBATCH --tiem=1\n", "line 2: --tiem is no option of sbatch: did you mean --time?"),
        (b"#!/bin/sh\n#SBATCH --gpus-per=1\n", "did you mean --gpus-per-node or --gpus-per-socket"),
        (b"#!/bin/sh\n#SBATCH -X\n", "line 2: -X is no option of sbatch"),
        (b"#!/bin/sh\n#SBATCH 4\n", "line 2: '4' is no option"),
        (b"#!/bin/sh\n#SBATCH --nodes\n", "line 2: --nodes has no value"),
        (b"#!/bin/sh\n#SBATCH --hold=1\n", "line 2: --hold takes no value"),
        (b"#!/bin/sh\n#SBATCH -J 'a\n", "line 2: cannot be read: no closing quotation"),
        (b"#!/bin/sh\r\ntrue\r\n", "line 1: ends as lines of Windows do"),
        (b"#!/bin/sh\n\xff", "is not UTF-8: byte 10"),
        (b"#!/bin/sh\n\0", "holds a byte 0"),
        (b"#!/bin/sh\n" + b"x" * LARGEST, f"{LARGEST} are the most"),
    ],
    ids=range(11),
)
def test_what_cannot_be_read(content: bytes, told: str) -> None:
    with pytest.raises(Invalid) as fault:
        read_script(content)
    assert told in str(fault.value)


def test_one_node_is_a_batch_job_with_its_script() -> None:
    found = translated("-n4 -c2 --mem=10G --gres=gpu:2", arguments=("a", "b c"))
    job, kept = found.objects
    assert (job["kind"], job["spec"]["backoffLimit"], validate(job)) == ("Job", 0, [])
    assert container(found)["command"] == ["/t9ksched/start", "a", "b c"]
    assert container(found)["resources"] == {
        "requests": {"cpu": "8", "memory": "10Gi"},
        "limits": {"memory": "10Gi", "nvidia.com/gpu": 2},
    }
    (volume,) = pod(found)["spec"]["volumes"]
    assert (volume["configMap"]["name"], kept["metadata"]["name"]) == ("fit-x-script", "fit-x-script")
    assert kept["data"]["script"].startswith("#!/bin/bash\n#SBATCH -n4")
    assert "affinity" not in pod(found)["spec"]


def test_several_nodes_are_a_gang_of_one_pod_a_node() -> None:
    found = translated("-N 2-4 --ntasks-per-node=3 --gpus=8 -p gpu,other", "--job-name='Fit it'  # it's #1")
    job, _ = found.objects
    assert (job["kind"], job["spec"]["replicaSpecs"][0]["replicas"], validate(job)) == ("PyTorchTrainingJob", 2, [])
    assert job["spec"]["scheduler"]["t9kScheduler"]["queue"] == "gpu"
    assert container(found)["resources"]["limits"]["nvidia.com/gpu"] == 4
    (term,) = pod(found)["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "labelSelector": {"matchLabels": {GROUP_LABEL: "fit-x"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    env = environment(found)
    assert (env["SLURM_NNODES"], env["SLURM_NTASKS"], env["SLURM_JOB_NAME"]) == ("2", "6", "Fit it")
    told = becomes(found)
    assert told["-N 2-4"] == "2 replicas, each on a node of its own (the least of the range)"
    assert told["--gpus=8"] == "4 cards in each pod"
    assert told["-p gpu,other"] == "queue gpu (the first of several)"
    assert "once in each of its 2 pods" in told["the script"]


@pytest.mark.parametrize(
    ("line", "nodes", "cpu", "memory", "cards"),
    [
        ("-n 8 --ntasks-per-node=4", 2, "4", None, None),
        ("-n 5 -N 2", 2, "3", None, None),
        ("-N 4 -n 2", 2, "1", None, None),
        ("-c 6", 1, "6", None, None),
        ("-n 2 --gpus-per-task=2 --cpus-per-gpu=3", 1, "12", None, 4),
        ("-n 2 -c 2 --mem-per-cpu=500", 1, "4", "2000Mi", None),
        ("--gpus=3 --mem-per-gpu=2T", 1, None, "6Ti", 3),
        ("--gpus-per-node=a100:1 --ntasks-per-gpu=2", 1, "2", None, 1),
        ("--mincpus=7 -c 2", 1, "7", None, None),
        ("--gres=none", 1, None, None, None),
        ("--gres=gpu", 1, None, None, 1),
        ("--mem=4096K", 1, None, "4096Ki", None),
    ],
)
def test_amounts_are_those_of_one_pod(
    line: str, nodes: int, cpu: str | None, memory: str | None, cards: int | None
) -> None:
    found = translated(line)
    spec = found.objects[0]["spec"]
    assert (spec["replicaSpecs"][0]["replicas"] if "replicaSpecs" in spec else 1) == nodes
    resources = container(found).get("resources", {})
    assert resources.get("requests", {}).get("cpu") == cpu
    assert resources.get("requests", {}).get("memory") == memory
    assert resources.get("limits", {}).get("nvidia.com/gpu") == cards


def test_times_and_signals_are_annotations() -> None:
    found = translated("-t 1-2:30 --begin=14:00 --signal=B:USR1@300 --reservation=night --export=ALL,A=1,SET")
    told = found.objects[0]["metadata"]["annotations"]
    assert told[TIME_LIMIT_ANNOTATION] == "26h30m"
    assert told[START_AFTER_ANNOTATION] == "2030-01-31T14:00:00+08:00"
    assert told[RESERVATION_ANNOTATION] == "night"
    assert pod(found)["metadata"]["annotations"][SIGNAL_BEFORE_ANNOTATION] == "5m"
    assert pod(found)["spec"]["terminationGracePeriodSeconds"] == 300
    env = environment(found)
    assert (env["A"], env["SET"]) == ("1", "here")


@pytest.mark.parametrize(
    ("text", "name", "to", "before", "told"),
    [
        ("B:USR1@300", "USR1", "script", "5m", "SIGUSR1 5m before its end, to the script alone"),
        ("USR2@120", "USR2", "steps", "2m", "SIGUSR2 2m before its end, to its steps"),
        ("TERM", None, "steps", "1m", "SIGTERM 1m before its end"),
        ("SIGHUP@5", "HUP", "steps", "5s", "SIGHUP 5s"),
        ("R:10@5", "USR1", "steps", "5s", "SIGUSR1 5s"),
        ("RB:usr1", "USR1", "script", "1m", "SIGUSR1 1m before its end, to the script alone"),
        ("INT@90", None, "steps", "1m30s", "SIGTERM 1m30s before its end, to its steps, or what else"),
    ],
)
def test_the_signal_before_the_end(text: str, name: str | None, to: str, before: str, told: str) -> None:
    found = translated(f"--signal={text}")
    env = environment(found)
    assert (env.get("T9K_SIGNAL"), env["T9K_SIGNAL_TO"]) == (name, to)
    assert pod(found)["metadata"]["annotations"][SIGNAL_BEFORE_ANNOTATION] == before
    assert pod(found)["spec"]["terminationGracePeriodSeconds"] == max(30, words.signal(text).seconds)
    assert becomes(found)[f"--signal={text}"].startswith(told)
    assert ("do not hear SIGINT" in becomes(found)[f"--signal={text}"]) is ("INT" in text)


def test_jobs_that_are_waited_for() -> None:
    found = translated("-d afterok:job/prep:mj/walk,afterany:pj/other --kill-on-invalid-dep=yes")
    told = found.objects[0]["metadata"]["annotations"]
    assert told[AFTER_ANNOTATION] == "Job/prep, MPIJob/walk, PyTorchTrainingJob/other:any"
    assert told[AFTER_CANCEL_ANNOTATION] == "true"
    assert found.fields[f"metadata.annotations[{AFTER_CANCEL_ANNOTATION}]"].endswith("--kill-on-invalid-dep=yes")
    assert AFTER_CANCEL_ANNOTATION not in str(translated("-d afterok:job/a --kill-on-invalid-dep=no").objects)


def test_an_array_is_a_job_for_each_index() -> None:
    found = translated("--array=1-9:2%2")
    env = environment(found)
    assert (found.array, env["SLURM_ARRAY_TASK_COUNT"], env["SLURM_ARRAY_TASK_MAX"]) == ("1-9:2%2", "5", "9")
    assert env["SLURM_JOB_ID"] == f"{env['SLURM_ARRAY_JOB_ID']}-$(T9K_ARRAY_INDEX)", "each element has its own"
    assert becomes(found)["--array=1-9:2%2"] == "5 jobs, fit-x-1 to -9, at most 2 at once"
    assert found.fields["array"] == "line 2, --array=1-9:2%2"
    several = pod(translated("--array=0-1 -N2"))["spec"]["affinity"]["podAntiAffinity"]
    (term,) = several["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["matchLabelKeys"] == [GROUP_LABEL]


def test_where_it_may_run() -> None:
    found = translated("--constraint='ib&zone=east|west'", "-x n[1-2],m3", "-w n2", "--exclusive", "--gres=gpu:A100:1")
    affinity = pod(found)["spec"]["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    hosts = [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]},
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2", "m3"]},
    ]
    east = [("feature.node.kubernetes.io/ib", "true"), ("zone", "east")]
    assert [term["matchExpressions"] for term in terms] == [
        [*({"key": key, "operator": "In", "values": [value]} for key, value in east), *hosts],
        [{"key": "zone", "operator": "In", "values": ["west"]}, *hosts],
    ]
    (term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchExpressions"] == [{"key": QUEUE_LABEL, "operator": "Exists"}]
    assert term["namespaceSelector"] == {}
    assert pod(found)["metadata"]["annotations"][GPU_MODEL_ANNOTATION] == "A100"
    models = translated("-C A100|H100 -G 1")
    assert pod(models)["metadata"]["annotations"][GPU_MODEL_ANNOTATION] == "A100,H100"
    assert "affinity" not in pod(models)["spec"]


def test_features_of_nodes() -> None:
    find = features_of(NODES)
    assert [find(one) for one in ("ib", "ssd", "East", "zone=west", "a100", "A100-80GB")] == [
        Label("feature.node.kubernetes.io/ib", "true"),
        Label("ssd", "true"),
        Label("zone", "east"),
        Label("zone", "west"),
        Model("a100"),
        Model("A100-80GB"),
    ]
    assert [find(one) for one in ("n1", "both", "zone=north", "A10", "")] == [None] * 5


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["--hold"], "line 2: --hold: a job cannot be submitted held"),
        (["-N2", "--gpus=3"], "line 3: --gpus=3: 3 cards cannot be divided among 2 nodes"),
        (["--constraint=nvme"], "no node has the feature 'nvme'"),
        (["--constraint=[a*2]"], "has '*', which has no counterpart"),
        (["--constraint=a100"], "names models of cards beside labels, or without cards"),
        (["--constraint=a100|ib -G1"], "names models of cards beside labels"),
        (["--gres=gpu:a:1,gpu:b:2"], "cards of several types"),
        (["--gres=gpu:1,shard:2"], "shard:2 has no counterpart"),
        (["--mem=0"], "all memory of a node has no counterpart"),
        (["--mem=10X"], "'10X' is no amount of memory"),
        (["--time=1:2:3:4"], "'1:2:3:4' is no time"),
        (["--nodes=4-2"], "more nodes at least than at most"),
        (["--ntasks=0"], "'0' is no number from 1 on"),
        (["--exclusive=user"], "=user has no counterpart"),
        (["--export=NOT_SET"], "NOT_SET is not set here"),
        (["--begin=someday"], "'someday' is no moment"),
        (["--container-image=/home/x.sqsh"], "is a file of squashfs"),
        (["--exclude=n[1-"], "is no list of hosts"),
        (["--exclude=n[0-99999]"], "names more than 10000 hosts"),
        (["--array=9-1"], "ends before it begins"),
        (["--array=0-99999"], "an array has 1000 at most"),
        (["--dependency=afterok:1234"], "'1234' names no job here: jobs have names"),
        (["--dependency=singleton"], "'singleton' has no counterpart"),
        (["--dependency=afterok:job/a?afterok:job/b"], "met by any one of several"),
        (["--dependency=afterok:nb/lab"], "a Notebook does not end by itself"),
        (["--signal=@@"], "is no signal"),
        (["--signal=STOP@60"], "is no signal"),
        (["-D sub/dir"], "line 2: -D sub/dir: 'sub/dir' is not absolute: write it from / on"),
        (["--signal=99"], "is no signal"),
    ],
)
def test_what_has_no_counterpart_and_cannot_be_left_out(lines: list[str], told: str) -> None:
    assert told in refusal(*lines)


def test_all_faults_are_told_at_once_and_the_image_by_its_option() -> None:
    text = refusal("--hold", "--mem=x", "--time=y")
    assert [f"line {number}" in text for number in (2, 3, 4)] == [True] * 3
    assert "image: is missing" in refusal("-N1", image="")
    assert container(translated("--container-image=nvcr.io#nvidia/x:1", image=""))["image"] == "nvcr.io/nvidia/x:1"


def test_where_it_starts() -> None:
    assert container(translated("--chdir=/a"))["workingDir"] == "/a"
    assert container(translated("--chdir=/a", workdir="/b", overridden={"chdir": "--workdir"}))["workingDir"] == "/b"


def test_each_line_is_told() -> None:
    found = translated(
        "--mail-user=a@b -o x.log",
        "--time=10 --qos=high",
        "--time=20 --no-kill",
        body="module load x\nsrun a\nsrun b\necho $SLURM_JOB_NODELIST\n#SBATCH -N2",
        overridden={"output": "--queue"},
    )
    assert [(one.line, one.written, one.becomes, one.met) for one in found.told] == [
        (2, "--mail-user=a@b", f"no counterpart: {UNMET['mail-user']}", False),
        (2, "-o x.log", "overridden by --queue", True),
        (3, "--time=10", "overridden by line 4", True),
        (3, "--qos=high", f"no counterpart: {UNMET['qos']}", False),
        (4, "--time=20", "time limit 20m", True),
        (4, "--no-kill", "no counterpart", False),
        (9, "#SBATCH", "not read: it stands behind the first command, and sbatch does not read it either", False),
        (5, "module", "there are no modules: the image has what is needed", False),
        (6, "srun", "starts the tasks of its own pod", True),
        (8, "$SLURM_NODELIST", "is not set: MASTER_ADDR is the first pod", False),
    ]


def test_a_fault_of_the_service_is_about_the_line() -> None:
    fields = translated("--mem=10G", "-t 5").fields
    assert fields["spec.template.spec.containers[0].resources.limits.memory"] == "line 2, --mem=10G"
    assert fields[f"metadata.annotations[{TIME_LIMIT_ANNOTATION}]"] == "line 3, -t 5"
    assert fields["spec.template.spec.containers[0].image"] == "--image"


def test_the_tables_name_options_of_sbatch_each_once() -> None:
    named = [*MEANINGS, *UNMET, *REFUSED]
    assert [name for name in named if name not in OPTIONS] == []
    assert len(named) == len(set(named))


VALUES = {
    "nodes": "2",
    "begin": "now",
    "export": "SET",
    "array": "0-3",
    "dependency": "afterok:job/prep",
    "kill-on-invalid-dep": "yes",
    "constraint": "ib",
    "mem": "1G",
    "time": "5",
    "gres": "gpu:1",
    "signal": "USR1",
    "chdir": "/x",
    "container-workdir": "/x",
}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_is_told_or_refused(name: str) -> None:
    number = any(part in name for part in ("tasks", "cpus", "gpus", "mem-per"))
    value = VALUES.get(name, "1" if number else "x")
    line = f"--{name}" if OPTIONS[name][1] == FLAG or name == "exclusive" else f"--{name}={value}"
    try:
        told = becomes(translated(line))
    except Invalid as error:
        told = {line: ""} if name in REFUSED else {str(error): ""}
    assert line in told


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("90", "1h30m"),
        ("10:30", "10m30s"),
        ("1:00:00", "1h"),
        ("2-0", "48h"),
        ("1-2:3", "26h3m"),
        ("1-2:3:4", "26h3m4s"),
        ("UNLIMITED", "0"),
    ],
)
def test_time_limits(text: str, limit: str) -> None:
    assert words.time_limit(text) == limit


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", None),
        ("today", None),
        ("now+90minutes", "2030-01-31T13:30:00+08:00"),
        ("now+2days", "2030-02-02T12:00:00+08:00"),
        ("now+60", "2030-01-31T12:01:00+08:00"),
        ("tomorrow", "2030-02-01T12:00:00+08:00"),
        ("16:00", "2030-01-31T16:00:00+08:00"),
        ("8:30 AM", "2030-02-01T08:30:00+08:00"),
        ("teatime", "2030-01-31T16:00:00+08:00"),
        ("midnight", "2030-02-01T00:00:00+08:00"),
        ("2030-03-01", "2030-03-01T00:00:00+08:00"),
        ("2030-03-01T10:00:00", "2030-03-01T10:00:00+08:00"),
        ("2030-03-01T10:00:00+00:00", "2030-03-01T10:00:00+00:00"),
    ],
)
def test_begins(text: str, moment: str | None) -> None:
    assert words.begin(text, NOON) == moment


def test_hosts() -> None:
    assert words.hosts("a[01-03,7]-x[1-2],b") == [
        *(f"a{one}-x{two}" for one in ("01", "02", "03", "7") for two in (1, 2)),
        "b",
    ]
