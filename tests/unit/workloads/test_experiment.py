"""AutoTuneExperiments: their trials, from the first to the best; what is refused, and where."""

import json
from typing import Any

import pytest

from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from t9ksched.workloads.tuning.trials import RESULTS_ANNOTATION, Results
from tests.unit.workloads.builders import World, block, container, experiment, template

Object = dict[str, Any]
KIND = "PyTorchTrainingJob"
GRID = {"lr": {"_type": "choice", "_value": [1, 2, 3]}}


class Trials(World):
    """An experiment, and what the controllers of its trials' jobs write."""

    def jobs(self) -> dict[str, Object]:
        return {name: each for (kind, name), each in sorted(self.objects.items()) if kind.endswith("TrainingJob")}

    def job(self, number: int) -> Object:
        return self.jobs()[f"hpo-{number}"]

    def shows(self, number: int, phase: str, *, says: str = "", **condition: str) -> None:
        """The job of a trial is in that phase; its leader has said that at its end."""
        containers = [{"name": "pytorch", "state": "terminated", "exitCode": 0, "message": says}]
        tasks = [{"type": "worker", "replicas": [{"name": "x", "containers": containers}]}]
        conditions = [{"type": phase, "status": "True", **condition}]
        self.job(number)["status"] = {"phase": phase, "tasks": tasks, "conditions": conditions}

    def sent(self, number: int, *steps: float, final: float | None = None) -> None:
        """A trial's program has sent these results."""
        results = Results(tuple(enumerate(steps, 1)), final)
        self.job(number)["metadata"].setdefault("annotations", {})[RESULTS_ANNOTATION] = results.written()

    def trial(self, number: int) -> Object:
        found: Object = self.status["trials"][number]
        return found

    def phases(self) -> list[str]:
        return [each["phase"] for each in self.status["trials"]]


def test_trials_are_jobs_with_their_parameters() -> None:
    world = Trials(experiment())
    world.settle()
    assert list(world.jobs()) == ["hpo-0", "hpo-1"]
    assert (world.status["phase"], world.phases()) == ("PENDING", ["Pending", "Pending"])
    job, parameters = world.job(1), world.trial(1)["parameters"]
    (entry,) = job["spec"]["replicaSpecs"]
    (main,) = entry["template"]["spec"]["containers"]
    assert main["args"] == ["train.py", f"--lr={parameters['lr']}", "$$(parameter.lr)", "$(HOME)"]
    env = {each["name"]: each.get("value") for each in main["env"]}
    assert (env["T9KSCHED_TRIAL"], json.loads(env["T9KSCHED_TRIAL_PARAMETERS"])) == ("1", parameters)
    assert job["spec"]["scheduler"] == block("a100", 3)
    assert entry["template"]["metadata"]["labels"]["tensorstack.dev/trial"] == "1"
    assert job["metadata"]["ownerReferences"][0]["name"] == "hpo"
    assert validate(job) == []
    (token,) = (each for each in main["env"] if each["name"] == "T9KSCHED_RESULTS_TOKEN")
    secret = world.objects["Secret", token["valueFrom"]["secretKeyRef"]["name"]]
    assert job["metadata"]["annotations"]["tensorstack.dev/results-token-sha256"]
    path = "/apis/v1/workloads/lab/pytorchtrainingjob/hpo-1/results"
    assert secret["metadata"]["annotations"] == {"tensorstack.dev/results-path": path}
    assert parameters != world.trial(0)["parameters"]


def test_the_last_words_of_the_leader_are_the_result() -> None:
    world = Trials(experiment(tuner="GridSearch", space=GRID))
    world.settle()
    world.shows(0, "Running")
    world.settle()
    assert (world.status["phase"], world.phases()) == ("RUNNING", ["Running", "Pending"])
    world.shows(0, "Succeeded", says='{"value": 0.5}')
    world.sent(1, 0.7, final=0.9)
    world.shows(1, "Succeeded", says="0.1")
    world.settle()
    assert [world.trial(at).get("value") for at in range(3)] == [0.5, 0.9, None]
    assert list(world.jobs()) == ["hpo-0", "hpo-1", "hpo-2"]
    world.sent(2, 0.2, 0.3)
    world.shows(2, "Succeeded")
    world.settle()
    assert world.trial(2)["value"] == 0.3  # the last that it sent
    assert world.status["phase"] == "DONE"
    assert world.status["best"] == {"number": 1, "name": "hpo-1", "parameters": {"lr": 2}, "value": 0.9}
    assert (world.condition("Completed"), world.condition("Failed")) == ("True", "False")
    assert world.status["trialCounts"]["succeeded"] == 3
    assert not world.plan()
    assert {kind for kind, _ in world.objects} == {KIND}  # tokens have gone with their trials
    assert world.reasons()[-1] == "Completed"
    del world.objects[KIND, "hpo-1"]
    assert not world.plan()  # its result stays on record


def test_a_token_of_a_try_that_did_not_end_is_made_anew() -> None:
    world = Trials(experiment(trialConcurrency=1))
    world.carry_out(world.plan(), 2)  # the status and the ConfigMap
    (holder,) = (each for (kind, _), each in world.objects.items() if kind == "ConfigMap")
    world.settle()
    assert world.objects["ConfigMap", "hpo-0-trial"]["metadata"]["uid"] != holder["metadata"]["uid"]
    before = world.job(0)["metadata"]["annotations"]
    del world.objects["ConfigMap", "hpo-0-trial"]
    world.collect()
    world.settle()
    assert [kind for kind, _ in world.objects].count("Secret") == 1
    assert world.job(0)["metadata"]["annotations"] == before


def test_trials_that_fail_count_and_an_experiment_without_a_result_has_failed() -> None:
    world = Trials(experiment(maxTrialNum=2))
    world.settle()
    world.shows(0, "Failed", message="exit 3")
    world.shows(1, "Succeeded", says="no number")
    world.settle()
    assert [world.trial(at)["message"] for at in (0, 1)] == ["exit 3", "it ended well and reported no result"]
    assert (world.status["phase"], world.condition("Failed")) == ("ERROR", "True")
    assert "completionTime" in world.status
    assert "best" not in world.status


def test_after_the_time_no_trial_is_made_and_those_that_run_count() -> None:
    world = Trials(experiment(maxExecSeconds=60))
    world.settle()
    world.later(1000)  # while it waits in the queue the time stands
    world.settle()
    assert world.status["phase"] == "PENDING"
    world.shows(0, "Running")
    world.shows(1, "Running")
    world.settle()
    assert world.plan().again_in == 60
    world.later(40)
    world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
    world.settle()
    assert world.status["ranSeconds"] == 40
    world.later(500)
    world.obj["spec"]["runMode"] = {"pause": {"enabled": False}}
    world.settle()
    assert world.plan().again_in == 20
    world.later(20)
    world.settle()
    assert (world.status["phase"], world.condition("Failed")) == ("TIMEOUT", "True")
    world.shows(0, "Succeeded", says="1")
    world.settle()
    assert (len(world.jobs()), world.status["phase"], world.status["best"]["value"]) == (2, "TIMEOUT", 1)
    assert world.reasons().count("Timeout") == 1


def test_a_pause_pauses_the_trials_and_resumes_only_those() -> None:
    world = Trials(experiment(trialConcurrency=3))
    world.settle()
    for number in range(3):
        world.shows(number, "Running")
    world.job(2)["spec"]["runMode"] = {"pause": {"enabled": True, "resumeSpecs": []}}  # its user did
    world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
    world.settle()
    assert world.status["phase"] == "PAUSED"
    assert [world.job(at)["spec"]["runMode"]["pause"]["enabled"] for at in range(3)] == [True] * 3
    world.shows(0, "Succeeded", says="1")
    world.settle()
    assert (len(world.jobs()), world.phases()[0]) == (3, "Succeeded")  # no other is made meanwhile
    world.obj["spec"]["runMode"] = {"pause": {"enabled": False}}
    world.settle()
    assert [world.job(at)["spec"]["runMode"]["pause"]["enabled"] for at in (1, 2)] == [False, True]
    assert len(world.jobs()) == 4
    assert all(
        "paused-by-experiment" not in str(each["metadata"])
        for each in world.jobs().values()
        if each is not world.job(0)
    )


def test_a_trial_that_the_scheduler_ended_at_a_limit_has_failed() -> None:
    world = Trials(experiment())
    world.settle()
    world.shows(0, "Paused", reason="TimeLimitExceeded", message="ran longer than 1h")
    world.shows(1, "Paused", reason="JobPaused")
    world.settle()
    assert (world.phases(), world.trial(0)["message"]) == (["Failed", "Pending", "Pending"], "ran longer than 1h")


def test_an_assessor_stops_trials_and_their_jobs_go() -> None:
    world = Trials(experiment(assessor={"builtinAssessorName": "Medianstop"}))
    world.settle()
    world.sent(0, 5, 6, 7)
    world.shows(0, "Succeeded")
    world.shows(1, "Running")
    world.settle()
    world.sent(1, 1)
    world.settle()
    assert world.phases() == ["Succeeded", "Stopped", "Pending", "Pending"]
    assert "hpo-1" not in world.jobs()
    assert (world.trial(1)["value"], world.trial(1)["step"]) == (1, 1)
    assert "worse than the median" in world.trial(1)["message"]


def test_tpe_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.workloads.tuning.suggest.find_spec", lambda _: None)
    world = Trials(experiment(tuner="TPE"))
    world.settle()
    (said,) = (each for each in world.status["conditions"] if each["type"] == "TunerReady")
    assert (said["status"], said["reason"]) == ("False", "LibraryMissing")
    assert "pip install 't9ksched[tune]'" in said["message"]
    assert (world.jobs(), world.reasons(), world.plan().again_in) == ({}, ["TunerMissing"], 60)
    assert expand(world.obj).jobs == ()
    monkeypatch.undo()
    world.settle()
    assert len(world.jobs()) == 2
    assert "TunerReady" not in str(world.status)


@pytest.mark.parametrize(
    ("framework", "role", "kind"),
    [
        ("tensorflow", "worker", "TensorFlowTrainingJob"),
        ("xgboost", "master", "XGBoostTrainingJob"),
        ("pytorch", "any", "PyTorchTrainingJob"),
    ],
)
def test_kinds_of_trials(framework: str, role: str, kind: str) -> None:
    tasks = [{"type": role, "template": template(container(gpu=2)), "restartPolicy": "Never"}]
    asked = experiment(space=GRID, trainingConfig={"type": framework, "tasks": tasks, "runPolicy": {"backoffLimit": 0}})
    jobs = expand(asked).jobs
    assert [each["kind"] for each in jobs] == [kind, kind]
    assert all(expand(job).pods and job["spec"]["runPolicy"] == {"backoffLimit": 0} for job in jobs)
    workload = read(asked)
    assert (workload.totals["nvidia.com/gpu"], workload.queue, workload.priority) == (4, "a100", 3)


def changed(change: Object) -> Object:
    """An experiment with other fields; of `trainingConfig`, with those named."""
    asked = experiment()
    config = {**asked["spec"]["trainingConfig"], **change.get("trainingConfig", {})}
    asked["spec"] |= {**change, "trainingConfig": config}
    return asked


def tasks(**main: Any) -> Object:
    return {"tasks": [{"type": "worker", "template": template(container(**main))}]}


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"maxTrialNum": None}, "spec.maxTrialNum", "is missing"),
        ({"maxTrialNum": 1001}, "spec.maxTrialNum", "from 1 to 1000"),
        ({"trialConcurrency": 0}, "spec.trialConcurrency", "from 1 to 100"),
        ({"maxExecSeconds": -1}, "spec.maxExecSeconds", "out of range"),
        ({"searchSpace": "{"}, "spec.searchSpace", "is no JSON object"),
        ({"searchSpace": {"a": 1}}, "spec.searchSpace", "must be a text"),
        (
            {"tuner": {"builtinTunerName": "Anneal"}},
            "spec.tuner.builtinTunerName",
            "is not run here: use one of Random",
        ),
        ({"tuner": {"builtinTunerName": "x"}}, "spec.tuner.builtinTunerName", "'x' is unknown"),
        ({"tuner": {"classArgs": "{"}}, "spec.tuner.classArgs", "is no JSON object"),
        ({"tuner": {"classArgs": '{"optimize_mode": "max"}'}}, "spec.tuner.classArgs", "use maximize or minimize"),
        ({"tuner": {"classArgs": {"population_size": 3}}}, "spec.tuner.classArgs", "'population_size' is no argument"),
        ({"tuner": {"classArgs": '{"constant_liar_type": "x"}'}}, "spec.tuner.classArgs", "use min, max or mean"),
        ({"tuner": {"classArgs": '{"parallel_optimize": "yes"}'}}, "spec.tuner.classArgs", "use true or false"),
        ({"tuner": {"builtinTunerName": "GridSearch"}}, "spec.searchSpace", "'lr' has no grid"),
        ({"tuner": {"builtinTunerName": "Batch"}}, "spec.searchSpace", "takes one parameter of the _type choice"),
        ({"assessor": {"builtinAssessorName": "x"}}, "spec.assessor.builtinAssessorName", "use one of Medianstop"),
        ({"assessor": {"classArgs": '{"start_step": -1}'}}, "spec.assessor.classArgs", "start_step is '-1'"),
        ({"tuner": None, "advisor": {"builtinAdvisorName": "BOHB"}}, "spec.advisor.builtinAdvisorName", "not run here"),
        ({"trainingConfig": {"type": "jax"}}, "spec.trainingConfig.type", "use one of tensorflow, pytorch, xgboost"),
        ({"trainingConfig": {"tasks": []}}, "spec.trainingConfig.tasks", "at least one"),
        ({"trainingConfig": {"tasks": None}}, "spec.trainingConfig.tasks", "is missing"),
        ({"trainingConfig": {"tasks": 3}}, "spec.trainingConfig.tasks", "must be a list"),
        (
            {"trainingConfig": tasks(args=["$(parameter.x)"])},
            "spec.trainingConfig.tasks[0].template.spec.containers[0].args[0]",
            "is none of the search space: it has lr, size",
        ),
        (
            {"trainingConfig": tasks(env=[{"name": "A", "value": "a $(parameter.y)"}])},
            "spec.trainingConfig.tasks[0].template.spec.containers[0].env[0].value",
            "$(parameter.y) is none",
        ),
        (
            {"trainingConfig": tasks(cpu="many")},
            "spec.trainingConfig.tasks[0].template.spec.containers[0].resources.requests.cpu",
            "",
        ),
        ({"trainingConfig": {"type": "tensorflow"} | tasks(), "maxTrialNum": 3}, "", ""),
        ({"trainingConfig": {"type": "xgboost"} | tasks()}, "spec.trainingConfig.tasks", "no entry of type master"),
        ({"trainingConfig": {"runPolicy": {"backoffLimit": -1}}}, "spec.trainingConfig.runPolicy.backoffLimit", ""),
        ({"runMode": {"pause": {"enabled": 1}}}, "spec.runMode.pause.enabled", "must be true or false"),
    ],
)
def test_faults_are_told_with_their_path(change: Object, path: str, said: str) -> None:
    faults = validate(changed(change))
    if not path:
        assert faults == []
        return
    assert [fault.path for fault in faults] == [path]
    assert said in faults[0].message


def test_a_name_leaves_room_for_the_number_and_the_pods() -> None:
    long = experiment() | {"metadata": {"name": "h" * 55}}
    (fault,) = validate(long)
    assert (fault.path, "room for the number of a trial" in fault.message) == ("metadata.name", True)


PUBLISHED = {
    "storage": "100Mi",
    "aistore": {"secret": "aistore", "folder": "b6c1"},
    "maxExecSeconds": 3600,
    "tuner": {"builtinTunerName": "TPE", "classArgs": '{"optimize_mode": "maximize", \n "constant_liar_type": "min"}'},
    "assessor": {
        "builtinAssessorName": "Curvefitting",
        "classArgs": '{"optimize_mode": "minimize", "epoch_num": 20, "start_step": 6, "threshold": 0.95, "gap": 1}',
    },
}


def test_what_the_platform_publishes_is_taken() -> None:
    assert validate(changed(PUBLISHED)) == []
    batch = {"builtinTunerName": "Batch", "classArgs": '{"optimize_mode": "minimize", "population_size": 32}'}
    assert validate(changed({"searchSpace": json.dumps(GRID), "tuner": batch, "trainingConfig": tasks()})) == []
    both = {"advisor": {"builtinAdvisorName": "Hyperband"}}
    assert validate(changed(both)) == []  # the tuner counts
