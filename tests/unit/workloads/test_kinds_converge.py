"""Every kind that the controllers turn into pods, through random histories: whatever happens, what there is becomes
what its spec says.

Pods run, end, are taken and vanish; what a job owns is lost or edited; its spec changes at any moment, as far as the
definitions let it; and the controller dies after any of its actions. One machine (`Machine`) is run once for each kind;
a kind without samples here fails.
"""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from t9ksched.model.names import GROUP_LABEL, LAST_ACTIVITY_ANNOTATION, QUEUE_LABEL
from t9ksched.workloads.actions import Expansion
from t9ksched.workloads.activity import idle_since, is_idle, reported_use
from t9ksched.workloads.addons import ADDONS, Usable
from t9ksched.workloads.answers import NOT_YET, Activity
from t9ksched.workloads.fields import Field
from t9ksched.workloads.job import REVISION_ANNOTATION
from t9ksched.workloads.kinds import mlservice
from t9ksched.workloads.parts import Owner
from t9ksched.workloads.reconcile import expand
from t9ksched.workloads.registry import CONTROLLED
from tests.unit.workloads import builders
from tests.unit.workloads.builders import NOW, World

Object = dict[str, Any]
ELASTIC = {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 2}
BOARD = {"image": "example/board:1", "trainingLogFilesets": ["t9k://pvc/runs/log"]}
PORTS = {"ports": [{"name": "rpc", "port": 7000}]}
POLICIES = ("Never", "OnFailure", "Always", "ExitCode")
SAMPLES: dict[str, list[Object]] = {
    "GenericJob": [
        builders.generic(successRules=[{"lead": [0]}], failureRules=[{"helper": [0, 1]}], service=PORTS),
        builders.generic(lead={"command": ["$(service.helper[1].host)"]}, service=PORTS, cleanUpPolicy="Unfinished"),
        builders.generic(cleanUpPolicy="All"),
    ],
    "PyTorchTrainingJob": [
        builders.pytorch(3, restart="ExitCode", runPolicy={"backoffLimit": 1, "cleanUpPolicy": "Unfinished"}),
        builders.pytorch(elastic=ELASTIC, torchrunConfig={"enabled": True}, runPolicy={"activeDeadlineSeconds": 90}),
    ],
    "TensorFlowTrainingJob": [
        builders.tensorflow({"runPolicy": {"cleanUpPolicy": "All"}}, chief=1, worker=1, ps=1),
        builders.tensorflow({"runPolicy": {"backoffLimit": 1}, "tensorboardSpec": BOARD}, worker=2, evaluator=1),
    ],
    "XGBoostTrainingJob": [builders.xgboost({"runPolicy": {"activeDeadlineSeconds": 90}}, master=1, worker=2)],
    "MPIJob": [
        builders.mpi_v1(2, runPolicy={"cleanUpWorkers": True}),
        builders.mpi_v2(2, {"restartPolicy": {"policy": "OnFailure", "limit": 1}}),
    ],
    "ColossalAIJob": [
        builders.colossal_v1(2, runPolicy={"cleanUpWorkers": True}),
        builders.colossal_v2(2, {"restartPolicy": {"policy": "OnFailure", "limit": 1}}),
    ],
    "DeepSpeedJob": [
        builders.deepspeed(3, runPolicy={"backoffLimit": 1, "cleanUpPolicy": "All"}),
        builders.deepspeed(elastic=ELASTIC, config={"customCommand": "deepspeed x.py"}),
    ],
    "BeamJob": [builders.beam(runPolicy={"cleanUpCluster": True}), builders.beam(1, {"backoffLimit": 1})],
    "Notebook": [
        builders.notebook(),
        builders.notebook(ssh={"enabled": True, "authorized_keys": ["ssh-ed25519 AAA ann"]}),
    ],
    "TensorBoard": [builders.tensorboard()],
    "Explorer": [builders.explorer()],
    "VirtualServer": [
        builders.virtual_server(),
        builders.virtual_server(network={"tcp": [22]}, cloudInit="#cloud-config", runStrategy="RerunOnFailure"),
    ],
    "MLService": [
        builders.ml_service(),
        builders.ml_service(transformer=builders.release("", 1)["predictor"], canary="two", canaryTrafficPercent=20),
        builders.ml_service(
            builders.release("one", 2, template=None, model={"runtime": "shared", "parameters": {"SIZE": "9b"}}),
            builders.release("two"),
        ),
    ],
    "SimpleMLService": [
        builders.simple_ml(),
        builders.simple_ml(
            storage={"s3": {"uri": "s3://models/x", "secretRef": {"name": "s3"}}}, service={"type": "NodePort"}
        ),
    ],
}
ENDED = ("Succeeded", "Failed")
SERVERS = ("Notebook", "TensorBoard", "Explorer")
SUSPENDED = (*SERVERS, "VirtualServer")
DEPLOYED = tuple(row.name for row in CONTROLLED if row.deploys)
ENDLESS = (*SERVERS, *DEPLOYED)
ANSWERS = ("not yet", "away", "login", "busy", "used", "quiet")
KNATIVE_KINDS = ("Service.knative", "Route.knative")
OWNED = ("PodGroup", "Service", "ConfigMap", "TensorBoard", "Deployment", "VirtualMachine", *KNATIVE_KINDS)


def served(obj: Object, runtimes: list[Object], *, knative: bool) -> Expansion:
    """What a MLService consists of, with these runtimes."""
    spec, block = mlservice.read_spec(Field(obj)), obj["spec"]["scheduler"]["t9kScheduler"]
    owner = Owner.of(obj, block["queue"], block.get("priority", 0))
    known = {each["metadata"]["name"]: each for each in runtimes}
    pods = {part.name: mlservice._pod(part, known) for part in spec.parts}
    return mlservice.on_knative(spec, owner, pods) if knative else mlservice.expand(spec, owner, pods)


def pods_of(maker: Object) -> int:
    """How many pods there are to be of an object."""
    if maker["kind"] == "Route":
        return 0
    notes = maker["spec"]["template"]["metadata"].get("annotations") or {}
    return int(notes.get("autoscaling.knative.dev/min-scale", maker["spec"].get("replicas", 1)))


def notes_of(pod: Object) -> Object:
    """Its annotations that must be those of its spec; reports of use are those of when it was made."""
    notes = pod["metadata"].get("annotations") or {}
    return {key: text for key, text in notes.items() if key not in (REVISION_ANNOTATION, LAST_ACTIVITY_ANNOTATION)}


class Machine(RuleBasedStateMachine):
    """One object of the kind, what it owns, and a controller that may die."""

    kind: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.own_failures: set[str] = set()
        self.phase_at_end, self.made_at_end = "", 0

    @initialize(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        self.world = World(data.draw(st.sampled_from(SAMPLES[self.kind])))
        self.world.named = [builders.runtime()] if self.kind == "MLService" else []

    @property
    def spec(self) -> Object:
        found: Object = self.world.obj["spec"]
        return found

    @property
    def paused(self) -> bool:
        if self.kind in SUSPENDED:
            return bool(self.spec.get("suspend"))
        if self.kind == "SimpleMLService":
            return self.spec.get("replicas") == 0
        return bool(self.spec.get("runMode", {}).get("pause", {}).get("enabled"))

    def chosen(self, which: int) -> str | None:
        """One of the pods that have not ended."""
        pods = [name for name in self.world.pods() if self._status(name).get("phase") not in ENDED]
        return pods[which % len(pods)] if pods else None

    def _status(self, name: str) -> Object:
        return self.world.pod(name).get("status") or {}

    # What nodes, users and the scheduler do.

    @rule(which=st.integers(0, 5))
    def a_pod_runs(self, which: int) -> None:
        if name := self.chosen(which):
            self.world.set_phase(name, "Running")

    @rule(which=st.integers(0, 5), code=st.sampled_from((0, 0, 1, 137)))
    def a_pod_ends(self, which: int, code: int) -> None:
        if name := self.chosen(which):
            self.own_failures.add(self.world.pod(name)["metadata"]["uid"])
            self.world.set_phase(name, "Failed" if code else "Succeeded", code)

    @rule(which=st.integers(0, 5), refused=st.booleans())
    def a_pod_is_taken(self, which: int, refused: bool) -> None:
        if name := self.chosen(which):
            target: Object = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
            self.world.set_phase(name, "Failed", 143, **({"reason": "OutOfcpu"} if refused else target))

    @rule(which=st.integers(0, 9))
    def a_pod_vanishes(self, which: int) -> None:
        if pods := self.world.pods():
            self.world.vanish(pods[which % len(pods)])

    @rule(which=st.integers(0, 9))
    def a_pod_is_being_deleted(self, which: int) -> None:
        if pods := self.world.pods():
            self.world.pod(pods[which % len(pods)])["metadata"]["deletionTimestamp"] = self.world.now.isoformat()

    @rule(which=st.integers(0, 9), lost=st.booleans())
    def a_companion_is_lost_or_edited(self, which: int, lost: bool) -> None:
        found = sorted(key for key in self.world.objects if key[0] in OWNED)
        if not found:
            return
        key = found[which % len(found)]
        if lost:
            del self.world.objects[key]
            self.world.collect()
        elif key[0] == "PodGroup":
            self.world.objects[key]["spec"] |= {"minMember": 7, "priority": 99}
        elif key[0] == "Service":
            self.world.objects[key]["spec"]["selector"] = {"app": "other"}
        elif key[0] == "TensorBoard":
            self.world.objects[key]["spec"] = {"image": "other"}
        elif key[0] == "Deployment":
            spec = self.world.objects[key]["spec"]
            spec["replicas"] = 9
            spec["template"]["spec"]["schedulerName"] = "other"
            spec["template"]["metadata"]["labels"].pop(GROUP_LABEL, None)
        elif key[0] in KNATIVE_KINDS:
            self.world.objects[key]["spec"] = {"template": {}} if key[0] == "Service.knative" else {"traffic": []}
            self.world.objects[key]["metadata"]["annotations"] = {}
        elif key[0] == "VirtualMachine":
            spec = self.world.objects[key]["spec"]
            spec["template"]["spec"]["schedulerName"] = "other"
            spec["template"]["metadata"]["labels"].pop(GROUP_LABEL, None)
        else:
            self.world.objects[key]["data"] = {}

    @rule(seconds=st.sampled_from((1, 20, 100)))
    def time_passes(self, seconds: int) -> None:
        self.world.later(seconds)

    # How far the use of servers is known, and what follows.

    @precondition(lambda self: self.kind == "Notebook")
    @rule(how=st.sampled_from(ANSWERS))
    def it_is_asked(self, how: str) -> None:
        now = self.world.now
        self.world.activity = {
            "not yet": NOT_YET,
            "away": Activity(reason="NotReachable", at=now),
            "login": Activity(reason="LoginRequired", at=now),
            "busy": Activity(NOW, busy="a kernel works", at=now),
            "used": Activity(now, at=now),
            "quiet": Activity(NOW, at=now),
        }[how]

    @precondition(lambda self: self.kind in SERVERS)
    @rule(ago=st.sampled_from((0, 3000, 9000)))
    def its_use_is_reported(self, ago: int) -> None:
        used = self.world.now - timedelta(seconds=ago)
        self.world.obj["metadata"]["annotations"] = {LAST_ACTIVITY_ANNOTATION: used.isoformat()}

    @precondition(lambda self: self.kind in SERVERS)
    @rule(hours=st.integers(1, 3))
    def hours_pass(self, hours: int) -> None:
        self.world.later(hours * 3600)

    @precondition(lambda self: self.kind in SERVERS)
    @rule()
    def the_keeper_suspends(self) -> None:
        if is_idle(self.world.obj):
            self.spec["suspend"] = True

    @precondition(lambda self: self.kind == "MLService")
    @rule(tag=st.integers(0, 3), gone=st.booleans(), enabled=st.booleans())
    def the_runtime_is_other(self, tag: int, gone: bool, enabled: bool) -> None:
        self.world.named = [] if gone else [builders.runtime(f"example/serve:{tag}", enabled=enabled)]

    # What users change.

    @rule(on=st.booleans(), resize=st.integers(0, 3), debug=st.booleans())
    def pause_or_resume(self, on: bool, resize: int, debug: bool) -> None:
        if self.kind in SUSPENDED:
            self.spec["suspend"] = on
            return
        if self.kind == "SimpleMLService":
            self.spec["replicas"] = 0 if on else resize
            return
        if self.kind == "MLService":
            self.spec["runMode"] = {"pause": {"enabled": on}}
            return
        was = self.paused
        mode = self.spec.setdefault("runMode", {})
        mode["pause"] = {**mode.get("pause", {}), "enabled": on}
        if was or on:  # as the definitions allow
            mode["debug"] = {"enabled": debug}
            self._resize(resize)

    def _resize(self, count: int) -> None:
        """The last replica type has another number of replicas, and its container another image."""
        if self.kind == "BeamJob":
            cluster = copy.deepcopy(self.spec["flinkClusterTemplate"])
            cluster["spec"]["taskManager"]["replicas"] = max(1, count)
            self.spec["flinkClusterTemplate"] = cluster
            return
        kinds = self.spec.get("replicaSpecs") or [self.spec["worker"]]
        kinds[-1] = copy.deepcopy(kinds[-1])
        first, ruled = len(kinds) == 1, self.spec.get("successRules") or self.spec.get("failureRules")
        least = 2 if ruled or "$(" in str(kinds) else 1 if first else 0
        kinds[-1]["replicas"] = max(least, count)
        kinds[-1]["template"]["spec"]["containers"][0]["image"] = f"busybox:{count}"

    @rule(expected=st.integers(1, 3))
    def scale(self, expected: int) -> None:
        if "elastic" in self.spec:
            self.spec["elastic"] = {**self.spec["elastic"], "expectedReplicas": expected}

    @rule(queue=st.sampled_from(("a100", "a40")))
    def another_queue(self, queue: str) -> None:
        if self.kind in ENDLESS:
            self.spec["scheduler"] = builders.block(queue)

    @rule(limit=st.integers(0, 2), policy=st.sampled_from(("None", "Unfinished", "All")))
    def other_policies(self, limit: int, policy: str) -> None:
        if "cleanUpPolicy" in self.spec:
            self.spec["cleanUpPolicy"] = policy
        elif "backoffLimit" in self.spec.get("runPolicy", {}):
            self.spec["runPolicy"] = {"backoffLimit": limit, "cleanUpPolicy": policy}

    @rule(data=st.data(), count=st.integers(0, 3))
    def the_template_is_other(self, data: st.DataObject, count: int) -> None:
        """As under older definitions, which do not refuse it: then all pods are made anew."""
        if self.kind in SERVERS:
            place = self.spec["template"]["spec"]["containers"][0] if self.kind == "Notebook" else self.spec
            place["image"] = f"busybox:{count}"
            return
        if self.kind == "MLService":
            first = self.spec["releases"][0]
            if "model" in first["predictor"]:
                model = {**first["predictor"]["model"], "parameters": {"SIZE": f"{count}b"}}
                predictor = {**first["predictor"], "model": model, "minReplicas": count}
                self.spec["releases"] = [{**first, "predictor": predictor}, *self.spec["releases"][1:]]
                return
            others = [builders.release("two"), builders.release("three", 1)]
            self.spec["releases"] = [builders.release(first["name"], count, f"busybox:{count}"), *others[:count]]
            self.spec.pop("canary", None)
            return
        if self.kind == "VirtualServer":
            self.spec["cloudInit"] = f"#{count}"
            return
        if self.kind in DEPLOYED:
            self.spec["tensorflow"] = {**self.spec["tensorflow"], "image": f"busybox:{count}"}
            return
        for entry in self.spec.get("replicaSpecs") or ():
            policy: Any = data.draw(st.sampled_from(POLICIES))
            if self.kind in ("ColossalAIJob", "GenericJob", "MPIJob"):
                policy = {"policy": data.draw(st.sampled_from(POLICIES[:3])), "limit": data.draw(st.integers(0, 2))}
            entry["restartPolicy"] = policy
        self._resize(count)

    @rule()
    def deployments_make_pods(self) -> None:
        self.world.deploy()
        self.world.virtualise()
        self.world.serve()

    @rule(use=st.sampled_from((*Usable, Usable.SERVED, Usable.SERVED)), data=st.data())
    def another_project_comes_or_goes(self, use: Usable, data: st.DataObject) -> None:
        """Its objects go with it."""
        self.world.addons = {addon.project.name: use for addon in ADDONS}
        if use is Usable.ABSENT:
            made = ("VirtualMachine", *KNATIVE_KINDS)
            for key in [key for key in self.world.objects if key[0] in made]:
                del self.world.objects[key]
            if data.draw(st.booleans()):  # the collector of garbage may be late
                self.world.virtualise()
                self.world.serve()

    # What the controller does.

    @rule(data=st.data())
    def the_controller_dies_after_some_of_its_actions(self, data: st.DataObject) -> None:
        actions = self.world.plan()
        self.world.carry_out(actions, data.draw(st.integers(0, len(self.world.steps(actions)))))

    @rule()
    def the_controller_works(self) -> None:
        self.world.carry_out(self.world.plan())

    @rule()
    def all_is_quiet_for_long(self) -> None:
        """Nothing happens for a while, and pods come up: now there is what the spec says, and no more to do."""
        world = self.world
        world.addons = {addon.project.name: Usable.SERVED for addon in ADDONS}
        for key, pod in list(world.objects.items()):
            if key[0] == "Pod" and pod["metadata"].get("deletionTimestamp"):
                world.vanish(key[1])  # its kubelet has let it go
        if self.kind == "MLService" and not (world.named and world.named[0]["spec"]["enabled"]):
            world.named = [builders.runtime()]
        for _ in range(4):
            world.later(100)
            world.settle()
            world.deploy()
            world.virtualise()
            world.serve()
            for name in world.pods():
                if self._status(name).get("phase") not in ENDED:
                    world.set_phase(name, "Running")
        world.settle()
        assert not world.plan()
        self.check()
        if self.kind in SERVERS and not self.paused and world.status["phase"] == "Running":
            self.its_use_is_followed()

    def its_use_is_followed(self) -> None:
        """Nobody uses it for hours, asked once more; then somebody does, who reports it."""
        world, answer = self.world, self.world.activity
        world.later(3 * 3600)
        if answer is not None and answer.at is not None:
            world.activity = answer = replace(answer, at=world.now, last=answer.last and NOW)
        world.settle()
        reports = reported_use(world.obj) is not None
        told = answer is not None and answer.last is not None and not self.spec.get("ssh")
        hidden = answer is not None and (answer.busy or answer.passing)
        if answer is not NOT_YET:  # what was known then stays for a while
            assert is_idle(world.obj) == ((reports or told) and not hidden), world.status
        self.its_use_is_reported(0)
        world.settle()
        assert {each["type"]: each["status"] for each in world.status["conditions"]}["Idle"] == "False"

    def check(self) -> None:
        """What there is equals what the spec says."""
        world, status = self.world, self.world.status
        if self.kind in SERVERS:
            self.check_use()
        wanted = self.wanted()
        names = {pod["metadata"]["name"]: pod for pod in wanted.pods}
        if status["phase"] in ENDED and self.kind not in ENDLESS:
            policy = self.spec.get("cleanUpPolicy") or self.spec.get("runPolicy", {}).get("cleanUpPolicy")
            assert policy != "All" or not world.pods()
            assert policy != "Unfinished" or all(self._status(name)["phase"] in ENDED for name in world.pods())
            return
        if self.paused:
            assert (status["phase"], world.pods()) == ("Paused", [])
            return
        for each in wanted.companions:
            there = world.objects[builders.key_of(each)]
            if builders.key_of(each)[0] in KNATIVE_KINDS:
                assert there["spec"] == each["spec"]
            elif each["kind"] == "Service":
                assert there["spec"]["selector"] == each["spec"]["selector"]
            elif each["kind"] == "ConfigMap":
                assert there["data"] == each["data"]
            elif each["kind"] in ("TensorBoard", "Deployment"):
                assert there["spec"] == each["spec"]
            elif each["kind"] == "VirtualMachine":
                found = copy.deepcopy(there["spec"])
                assert found["template"]["spec"]["domain"].pop("firmware")
                assert found == each["spec"]
            elif each["kind"] == "PodGroup":
                assert 1 <= there["spec"]["minMember"] <= max(1, each["spec"]["minMember"])
                settled = ("queue",) if self.kind in DEPLOYED else ("queue", "priority")
                assert [there["spec"][key] for key in settled] == [each["spec"][key] for key in settled]
        assert {key for key in world.objects if key[0] in OWNED} == {
            key for each in wanted.companions if (key := builders.key_of(each))[0] in OWNED
        }
        if self.kind in DEPLOYED:
            assert len(world.pods()) == sum(map(pods_of, wanted.makers))
            assert {world.pod(name)["metadata"]["labels"][QUEUE_LABEL] for name in world.pods()} <= {
                self.spec["scheduler"]["t9kScheduler"]["queue"]
            }
            assert status["phase"] == "Running", status
            return
        over = {
            record["name"]
            for task in status.get("tasks", ())
            for record in task["replicas"]
            if record["phase"] in ENDED
        }
        if self.kind in SERVERS and status["phase"] == "Succeeded":
            return
        assert names.keys() - over <= set(world.pods()) <= names.keys()
        for name in names.keys() - over:
            there = world.pod(name)
            assert notes_of(there) == notes_of(names[name])
            assert {key: text for key, text in there["spec"].items() if key != "nodeName"} == names[name]["spec"]
        assert status["phase"] == "Running", status

    def wanted(self) -> Expansion:
        """What a workload with this spec consists of."""
        if self.kind != "MLService":
            return expand(self.world.obj)
        return served(self.world.obj, self.world.named, knative=self.world.status.get("servedBy") == "Knative")

    def check_use(self) -> None:
        """Nothing is idle that was used, that may be used unseen, or that does not run."""
        obj, answer = self.world.obj, self.world.activity
        reported, hour = reported_use(obj), timedelta(hours=1)
        if self.paused or self.world.status["phase"] != "Running":
            assert not is_idle(obj)
            return
        if not is_idle(obj):
            return
        since = idle_since(obj)
        assert since is not None
        assert self.world.now - since >= hour
        assert reported is None or reported <= since
        if answer is not None and answer is not NOT_YET:
            assert not answer.busy
            assert not answer.passing
            assert answer.last is None or answer.last <= since
        assert reported is not None or answer is not None

    @invariant()
    def what_has_ended_stays_so(self) -> None:
        if not hasattr(self, "world") or self.kind in ENDLESS:
            return
        phase = self.world.status.get("phase", "")
        if self.phase_at_end:
            assert (phase, len(self.world.created)) == (self.phase_at_end, self.made_at_end)
        elif phase in ENDED:
            self.phase_at_end, self.made_at_end = phase, len(self.world.created)

    @invariant()
    def restarts_are_counted_once(self) -> None:
        if hasattr(self, "world"):
            tasks = self.world.status.get("tasks", ())
            assert sum(task["restartCount"] for task in tasks) <= len(self.own_failures)


def test_every_controlled_kind_has_samples() -> None:
    others = {"AutoTuneExperiment"}  # it makes jobs: test_experiment_converges.py
    assert SAMPLES.keys() | others == {row.name for row in CONTROLLED}


def run(kind: str, examples: int, steps: int) -> None:
    machine = type(f"{kind}Machine", (Machine,), {"kind": kind})
    usual = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(machine, settings=usual)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_it_becomes_what_its_spec_says(kind: str) -> None:
    run(kind, 25, 30)


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_many_histories(kind: str) -> None:
    run(kind, 500, 60)
