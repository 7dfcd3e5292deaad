"""`t9ksched submit`: files by name or on standard input, generated names, fields changed on the way."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from t9ksched.client import Client, Refused
from tests.acceptance.conftest import EXAMPLES, Up, until

POD = (EXAMPLES / "pod.yaml").read_text()
GENERATED = POD.replace("name: nvidia-smi", "generateName: smi-", 1)


@pytest.fixture(autouse=True)
def _tidy(up: Up) -> Iterator[None]:
    yield
    until(lambda: _clear(up), "an empty cluster")


def _clear(up: Up) -> bool:
    """Cancel what is there; whether nothing was."""
    jobs = json.loads(up.must("jobs", "-o", "json"))["items"]
    if there := [f"{job['kind']}/{job['name']}" for job in jobs if job["phase"] != "Terminating"]:
        up.cli("cancel", *there, "--yes")
    return not there and not up.pods() and up.held() == 0


def names(told: str) -> list[str]:
    return re.findall(r"^(\S+) submitted", told, re.M)


def test_files_by_name_and_on_standard_input(up: Up, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(POD.replace("nvidia-smi", "other"))
    assert names(up.must("submit", str(EXAMPLES / "pod.yaml"), str(other))) == ["Pod/nvidia-smi", "Pod/other"]
    assert names(up.must("submit", "-", stdin=POD.replace("nvidia-smi", "third"))) == ["Pod/third"]
    assert names(up.must("submit", "-f", "-", stdin=POD.replace("nvidia-smi", "fourth"))) == ["Pod/fourth"]


def test_each_document_of_a_file_gets_a_name_of_its_own(up: Up) -> None:
    found = names(up.must("submit", "-", stdin=f"{GENERATED}---\n{GENERATED}"))
    assert len(set(found)) == 2
    assert all(re.fullmatch(r"Pod/smi-[a-z2-9]{5}", name) for name in found)
    assert {f"Pod/{pod['metadata']['name']}" for pod in up.pods()} == set(found)


def test_a_repeat_with_the_same_key_has_the_same_generated_name(up: Up) -> None:
    client = Client(up.server, up.token)
    (first,) = client.submit(GENERATED, key="once").items
    assert client.submit(GENERATED, key="once").items[0].uid == first.uid
    assert client.submit(GENERATED, key="twice").items[0].name != first.name
    assert len(up.pods()) == 2
    with pytest.raises(Refused, match=r"'A_b[a-z2-9]{5}' is not a valid name"):
        client.submit(GENERATED.replace("smi-", "A_b"))


def test_fields_are_changed_in_every_object(up: Up) -> None:
    words = ("--set", "metadata.labels[example.com/team]=a,spec.containers[0].resources.limits[nvidia.com/gpu]=2")
    up.must("submit", "-", *words, "--set-string", "metadata.labels.run=7", stdin=f"{GENERATED}---\n{GENERATED}")
    for pod in up.pods():
        labels = pod["metadata"]["labels"]
        assert (labels["example.com/team"], labels["run"]) == ("a", "7")
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"


SCRIPT = """#!/bin/bash
#SBATCH --job-name=fit --nodes=2 --gres=gpu:A100:2 --time=30
#SBATCH --partition=a100
#SBATCH --mail-user=a@b
srun python train.py
"""


def test_a_script_runs_as_a_gang_and_is_told_line_by_line(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "fit.sh"
    file.write_text(SCRIPT)
    done = up.cli("submit", str(file), "--image", "i", "--args", "a 'b c'")
    assert (done.code, "no counterpart: no mail is sent" in done.err) == (0, True), done.err
    (name,) = names(done.out)
    told = json.loads(up.must("wait", name, "--for", "running", "--timeout", "150s", "-o", "json"))
    assert (told["kind"], told["queue"], told["gpus"], told["timeLimit"]["seconds"]) == (
        "PyTorchTrainingJob",
        "a100",
        4,
        1800,
    )
    assert len({pod["spec"]["nodeName"] for pod in up.pods()}) == 2
    place = "/api/v1/namespaces/default/configmaps"
    (kept,) = [one for one in up.kube("GET", place)[1]["items"] if one["metadata"]["name"].startswith("fit-")]
    assert kept["data"]["script"] == SCRIPT
    assert f"{kept['metadata']['ownerReferences'][0]['kind']}/{kept['metadata']['ownerReferences'][0]['name']}" == name
    up.must("cancel", name, "--yes")
    path = f"{place}/{kept['metadata']['name']}"
    until(lambda: up.kube("GET", path)[1].get("message"), "the end of its ConfigMap")


def test_the_yaml_of_a_script_is_a_file_that_can_be_submitted(up: Up) -> None:
    shown = up.must("submit", "-", "--image", "i", "--dry-run", stdin=SCRIPT)
    assert "would start at once" in shown
    yaml = shown[: shown.index("\nPyTorchTrainingJob/")]
    assert "  script: |\n    #!/bin/bash\n    #SBATCH" in yaml
    assert len(names(up.must("submit", "-", stdin=yaml))) == 1


def test_what_is_for_scripts_is_refused_for_other_files(up: Up) -> None:
    done = up.cli("submit", "-", "--image", "i", "-e", "A=b", stdin=GENERATED)
    told = " ".join(done.err.split())
    assert (done.code, up.pods()) == (1, []), done.err
    assert "this is no script, and only scripts with #SBATCH lines take --image, --env" in told
    assert "--set PATH=VALUE" in told


def test_a_script_says_what_runs_it(up: Up) -> None:
    done = up.cli("submit", "-", "--image", "i", stdin=SCRIPT.partition("\n")[2])
    told = " ".join(done.err.split())
    assert (done.code, "#!/bin/bash, as sbatch wants" in told, up.pods()) == (1, True, []), done.err


def test_fields_of_a_scripts_job_are_changed(up: Up) -> None:
    words = ("--image", "i", "--set", "metadata.labels[team]=a,spec.runPolicy.activeDeadlineSeconds=77")
    (name,) = names(up.must("submit", "-", *words, stdin=SCRIPT))
    kind, _, own = name.partition("/")
    place = f"/apis/batch.tensorstack.dev/v1beta1/namespaces/default/{kind.lower()}s/{own}"
    job = up.kube("GET", place)[1]
    assert (job["metadata"]["labels"]["team"], job["spec"]["runPolicy"]["activeDeadlineSeconds"]) == ("a", 77)
    assert "labels" not in up.kube("GET", f"/api/v1/namespaces/default/configmaps/{own}-script")[1]["metadata"]


def test_what_a_script_becomes_as_json(up: Up) -> None:
    told = json.loads(up.must("submit", "-", "--image", "i", "--dry-run", "-o", "json", stdin=SCRIPT))
    (lines,) = [one["lines"] for one in told["translations"]]
    assert {(one["line"], one["written"], one["counterpart"]) for one in lines} >= {
        (2, "--nodes=2", True),
        (4, "--mail-user=a@b", False),
    }


def test_the_array_of_a_script(up: Up) -> None:
    text = SCRIPT.replace("--nodes=2", "--nodes=2 --array=1-3%2").replace("A100:2", "A100:1")
    done = up.cli("submit", "-", "--image", "i", stdin=text)
    assert (done.code, "3 jobs" in done.out, "at most 2 at once" in done.err) == (0, True, True), done.err
    until(lambda: len(up.pods()) >= 4, "two elements of two pods")
    kept = up.kube("GET", "/api/v1/namespaces/default/configmaps")[1]["items"]
    assert [len(one["metadata"]["ownerReferences"]) for one in kept if one["metadata"]["name"].startswith("fit-")] == [
        3
    ]
    by_element: dict[str, set[str]] = {}
    for pod in up.pods():
        variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        by_element.setdefault(str(variables["T9K_ARRAY_INDEX"]), set()).add(str(pod["spec"].get("nodeName")))
    assert {len(nodes - {"None"}) for nodes in by_element.values()} <= {0, 2}
    told = json.loads(up.must("submit", "-", "--image", "i", "--dry-run", "-o", "json", stdin=text))
    assert len(told["items"]) == 3
    assert told["simulation"]["jobs"][0]["name"].endswith("-1")


def test_exclusive_nodes_have_no_other_job(up: Up) -> None:
    alone = SCRIPT.replace("--nodes=2", "--exclusive --nodelist=a100-0")
    (name,) = names(up.must("submit", "-", "--image", "i", stdin=alone))
    up.must("wait", name, "--for", "running", "--timeout", "150s")
    up.must("submit", "-", stdin=POD)
    up.must("wait", "pod/nvidia-smi", "--for", "running", "--timeout", "150s")
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in up.pods()}
    assert nodes.pop("nvidia-smi") != "a100-0"
    assert set(nodes.values()) == {"a100-0"}


@pytest.mark.parametrize(
    ("words", "stdin", "code", "told"),
    [
        ((), "", 2, "No file is named"),
        (("-", "--set", "x"), POD, 2, "--set: 'x' changes nothing: write PATH=VALUE"),
        (("-", "--set", "kind.x=1"), POD, 1, "-: --set: kind.x cannot be set: kind is 'Pod'"),
        (("-", "--set", "spec.x=1"), "a: [", 1, "-: it cannot be read"),
        (("-", "--set", "spec.x=1"), "- 1", 1, "it holds something that is no object"),
        (("-",), "", 1, "Malformed"),
        (("-",), SCRIPT, 1, "-: --image is missing: name the container image"),
        (("-", "--image", "i", "-e", "x y"), SCRIPT, 1, "-: --env: 'x y' is no variable"),
        (("-", "--image", "i", "--args", "'"), SCRIPT, 1, '-: --args "\'" cannot be taken apart'),
        (("-", "--image", "i", "--set", "kind.x=1"), SCRIPT, 1, "--set: kind.x cannot be set"),
        (
            ("-", "--image", "i"),
            SCRIPT.replace("a100\n", "no\n"),
            1,
            "line 3, --partition=no: queue 'no' does not exist",
        ),
        (("-", "--image", "i"), SCRIPT.replace("--time=30", "--time=x"), 1, "line 2: --time=x: 'x' is no time"),
        (
            ("-", "--image", "i"),
            SCRIPT.replace("--time=30", "--hold"),
            1,
            "line 2: --hold: a job cannot be submitted held",
        ),
        (("-", "--image", "i"), SCRIPT.replace("--time=30", "-C nix"), 1, "no node has the feature 'nix'"),
        (("/nonexistent.yaml",), "", 1, "/nonexistent.yaml: it cannot be read: No such file"),
    ],
)
def test_what_cannot_be_submitted(up: Up, words: tuple[str, ...], stdin: str, code: int, told: str) -> None:
    done = up.cli("submit", *words, stdin=stdin)
    assert (done.code, told in done.err) == (code, True), done.err
    assert up.pods() == []


def test_a_dry_run_names_an_object_once(up: Up, tmp_path: Path) -> None:
    """The name that a `generateName` stands for is the same wherever it is told."""
    file = tmp_path / "named.yaml"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "gn-"}}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    job["spec"] = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    file.write_text(yaml.safe_dump(job))
    told = up.must("submit", str(file), "--queue", "default", "--dry-run")
    assert len(set(re.findall(r"Job/gn-[a-z0-9]{5}", told))) == 1
    assert len(re.findall(r"Job/gn-[a-z0-9]{5}", told)) > 1


def test_what_a_script_becomes_has_what_the_options_say(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "no.sh"
    file.write_text("#!/bin/sh\n#SBATCH -J no --partition elsewhere\necho hi\n")
    told = up.must("submit", str(file), "--queue", "default", "--time-limit", "5m", "--image", "i", "--dry-run")
    assert "scheduler.tensorstack.dev/queue: default" in told
    assert "scheduler.tensorstack.dev/time-limit: 5m" in told
