"""Workloads with defaults, so that a case names only what it is about; and a cluster that carries out actions."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BATCH, PLATFORM = "batch.tensorstack.dev/v1beta1", "tensorstack.dev/v1beta1"


def container(name: str = "main", cpu: Any = 1, memory: Any = "1Gi", gpu: int = 0, **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": memory}}
    if gpu:
        resources["limits"] = {"nvidia.com/gpu": gpu}
    return {"name": name, "image": "busybox", "resources": resources, **more}


def template(*containers: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"spec": {"containers": list(containers) or [container()], **spec}}
    return found | ({"metadata": metadata} if metadata else {})


def block(queue: str | None = "a100", priority: int | None = None) -> dict[str, Any]:
    inner = {key: value for key, value in {"queue": queue, "priority": priority}.items() if value is not None}
    return {"t9kScheduler": inner}


def obj(kind: str, spec: dict[str, Any], api: str = BATCH, name: str = "j", **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "lab", "uid": f"uid-{name}", **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def pytorch(
    replicas: int = 2, gpu: int = 0, queue: str | None = "a100", restart: str | None = None, **spec: Any
) -> dict[str, Any]:
    pod = template(container("pytorch", gpu=gpu))
    entry: dict[str, Any] = {"type": "worker", "replicas": replicas, "template": pod}
    if restart:
        entry["restartPolicy"] = restart
    whole: dict[str, Any] = {"replicaSpecs": [entry], **spec}
    if queue:
        whole["scheduler"] = block(queue, 5)
    return obj("PyTorchTrainingJob", whole, name="net")


def mpi_v1(replicas: int = 3, gpu: int = 0, **spec: Any) -> dict[str, Any]:
    worker = {"replicas": replicas, "cmd": ["./walk", "10"], "template": template(container("mpi-worker", gpu=gpu))}
    whole = {"scheduler": block("a40", 2), "mpiHome": "/opt/mpi", "ssh": {"sshdPath": "/usr/sbin/sshd"}}
    return obj("MPIJob", {**whole, "worker": worker, **spec}, name="walk")


def mpi_v2(replicas: int = 2, worker: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    types = [
        {"type": "launcher", "template": template(container("launcher", cpu="100m", memory="100Mi"))},
        {"type": "worker", "replicas": replicas, "template": template(container("worker", gpu=2)), **(worker or {})},
    ]
    config = {"home": "/opt/mpi", "script": ["./walk"], "mca": {"btl": "^openib"}, "extraArgs": ["-v"]}
    return obj("MPIJob", {"scheduler": block("a40"), "mpiConfig": config, "replicaSpecs": types, **spec}, name="walk")


def generic(lead: Any = None, helper: Any = None, **spec: Any) -> dict[str, Any]:
    types = [
        {"type": "lead", "template": template(container(**(lead or {})))},
        {"type": "helper", "replicas": 2, "template": template(container(**(helper or {})))},
    ]
    return obj("GenericJob", {"scheduler": block("a100", 5), "replicaSpecs": types, **spec}, name="pair")


def _roles(kind: str, name: str, pod: str, roles: dict[str, int], spec: dict[str, Any]) -> dict[str, Any]:
    types = [{"type": role, "replicas": count, "template": template(container(pod))} for role, count in roles.items()]
    return obj(kind, {"scheduler": block(), "replicaSpecs": types, **spec}, name=name)


def tensorflow(spec: dict[str, Any] | None = None, **roles: int) -> dict[str, Any]:
    return _roles("TensorFlowTrainingJob", "wide", "tensorflow", roles, spec or {})


def xgboost(spec: dict[str, Any] | None = None, **roles: int) -> dict[str, Any]:
    return _roles("XGBoostTrainingJob", "boost", "xgboost", roles, spec or {})


def deepspeed(replicas: int = 2, gpu: int = 2, config: Any = None, worker: Any = None, **spec: Any) -> dict[str, Any]:
    pod = template(container("worker", gpu=gpu, **(worker or {})))
    run = {"run": {"python": ["sft.py", "--epochs=1"]}} if config is None else config
    whole = {"scheduler": block("a100", 6), "config": run, "worker": {"replicas": replicas, "template": pod}}
    return obj("DeepSpeedJob", {**whole, **spec}, name="llm")


def colossal_v1(replicas: int = 2, launcher: Any = None, **spec: Any) -> dict[str, Any]:
    worker = {"replicas": replicas, "procPerWorker": 2, "command": ["train.py", "-x"], "torchArgs": []}
    whole = {"scheduler": block(), "worker": {**worker, "template": template(container("worker", gpu=2))}}
    open_launcher = {"image": "example/cai:1", "workingDir": "/w"} if launcher is None else launcher
    return obj("ColossalAIJob", {**whole, "launcher": open_launcher, **spec}, name="palm")


def colossal_v2(replicas: int = 2, worker: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    types = [
        {"type": "launcher", "template": template(container("launcher", cpu="500m", workingDir="/w"))},
        {"type": "worker", "replicas": replicas, "template": template(container("worker", gpu=2)), **(worker or {})},
    ]
    config = {"procPerWorker": 2, "script": ["train.py", "-x"]}
    return obj(
        "ColossalAIJob", {"scheduler": block(), "torchConfig": config, "replicaSpecs": types, **spec}, name="palm"
    )


def notebook(**spec: Any) -> dict[str, Any]:
    pod = template(container("notebook", gpu=1))
    return obj("Notebook", {"type": "jupyter", "scheduler": block("a100"), "template": pod, **spec}, PLATFORM, "lab")


def tensorboard(**spec: Any) -> dict[str, Any]:
    logs = {"pvc": [{"name": "runs", "subPath": ["a/log", "b/log"]}, {"name": "more"}]}
    return obj("TensorBoard", {"scheduler": block("a100"), "logDir": logs, **spec}, PLATFORM, "board")


SPACE = {"lr": {"_type": "uniform", "_value": [0, 1]}, "size": {"_type": "choice", "_value": [16, "big"]}}


def experiment(tuner: str = "Random", space: Any = None, **spec: Any) -> dict[str, Any]:
    """Six trials, two at a time, of jobs with one worker each; `trainingConfig` is given in parts."""
    words = ["train.py", "--lr=$(parameter.lr)", "$$(parameter.lr)", "$(HOME)"] if space is None else ["train.py"]
    task = {"type": "worker", "template": template(container("pytorch", gpu=1, args=words))}
    config = {"type": "pytorch", "scheduler": block("a100", 3), "tasks": [task], **spec.pop("trainingConfig", {})}
    usual = {"maxTrialNum": 6, "trialConcurrency": 2, "searchSpace": json.dumps(SPACE if space is None else space)}
    whole = {**usual, "tuner": {"builtinTunerName": tuner}, "trainingConfig": config, **spec}
    return obj("AutoTuneExperiment", whole, PLATFORM, "hpo")


def explorer(**spec: Any) -> dict[str, Any]:
    whole = {"storageType": "pvc", "storageName": "data", "scheduler": block("a100"), **spec}
    return obj("Explorer", whole, PLATFORM, "files")


def virtual_server(**spec: Any) -> dict[str, Any]:
    root = {"pvc": {"size": "4Gi"}, "source": {"http": {"url": "https://disks.example/a.img"}}}
    amounts = {"cpu": {"cores": "2"}, "memory": "4Gi"}
    whole = {"resources": amounts, "storage": {"root": root}, "scheduler": block("a100", 5), **spec}
    return obj("VirtualServer", whole, PLATFORM, "vm")


def launcher(machine: dict[str, Any], name: str, uid: str = "") -> dict[str, Any]:
    """The pod that KubeVirt makes for a VirtualMachine, as far as it shows of it."""
    template = copy.deepcopy(machine["spec"]["template"])
    own = template["spec"]
    amounts = copy.deepcopy(own["domain"]["resources"])
    for kind in ("gpus", "hostDevices"):
        for device in own["domain"]["devices"].get(kind, ()):
            for key in ("requests", "limits"):
                place = amounts.setdefault(key, {})
                place[device["deviceName"]] = str(int(place.get(device["deviceName"], 0)) + 1)
    spec = {"restartPolicy": "Never", "containers": [{"name": "compute", "image": "i", "resources": amounts}]}
    spec |= {key: own[key] for key in ("schedulerName", "nodeSelector", "affinity", "tolerations") if key in own}
    head = {"name": name, "namespace": machine["metadata"]["namespace"], **({"uid": uid} if uid else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], **head}, "spec": spec}


def beam(workers: int = 2, submit: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    amounts = {"limits": {"cpu": 1, "memory": "2Gi"}}
    cluster = {"flinkVersion": "1.10.1", "image": {"name": "example/flink:1"}, "jobManager": {"resources": amounts}}
    cluster |= {"taskManager": {"replicas": workers, "resources": amounts}, "flinkProperties": {"a.b": "1"}}
    whole = {"scheduler": block(), "flinkClusterTemplate": {"spec": cluster}, **spec}
    return obj("BeamJob", {"jobTemplate": {"spec": {"template": template(), **(submit or {})}}, **whole}, name="count")


def workflow_run(**spec: Any) -> dict[str, Any]:
    return obj("WorkflowRun", {"scheduler": block(), "workflowTemplateRef": "nightly", **spec}, name="night")


def release(name: str, replicas: int = 1, image: str = "example/serve:1", **predictor: Any) -> dict[str, Any]:
    own = template({"name": "user-container", "image": image, "ports": [{"containerPort": 8000}]})
    amounts = [{"name": "user-container", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]
    whole = {"minReplicas": replicas, "template": own, "containersResources": amounts, **predictor}
    return {"name": name, "predictor": {key: value for key, value in whole.items() if value is not None}}


def ml_service(*releases: dict[str, Any], **spec: Any) -> dict[str, Any]:
    found = list(releases) or [release("one", 2), release("two")]
    return obj(
        "MLService", {"default": "one", "releases": found, "scheduler": block("a100", 5), **spec}, PLATFORM, "net"
    )


def runtime(image: str = "example/serve:1", **spec: Any) -> dict[str, Any]:
    amounts = {"requests": {"cpu": 1, "memory": "1Gi"}}
    pod = template({"name": "user-container", "image": f"{image}-{{{{.SIZE}}}}", "resources": amounts})
    return obj("MLServiceRuntime", {"enabled": True, "template": pod, **spec}, PLATFORM, "shared")


def simple_ml(**spec: Any) -> dict[str, Any]:
    framework = (
        {} if {"custom", "pytorch"} & spec.keys() else {"tensorflow": {"image": "example/tf:1", "resources": {}}}
    )
    if framework:
        framework["tensorflow"]["resources"] = {"requests": {"cpu": 1, "memory": "1Gi"}}
    store = {"pvc": {"name": "models", "subPath": "mnist"}}
    whole = {"replicas": 2, "scheduler": block("a100", 5), "storage": store, **framework, **spec}
    return obj("SimpleMLService", whole, PLATFORM, "digits")


def key_of(thing: dict[str, Any]) -> tuple[str, str]:
    """Kind and name; two kinds are called Service."""
    knative = thing.get("apiVersion", "").startswith("serving.knative.dev")
    return f"{thing['kind']}{'.knative' if knative else ''}", thing["metadata"]["name"]


class World:
    """A job and what it owns, changed only by actions and by what a test makes of its pods."""

    def __init__(self, workload: dict[str, Any]) -> None:
        self.obj = copy.deepcopy(workload)
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.now = NOW
        self.events: list[Any] = []
        self.created: list[str] = []
        self.addons: dict[str, Any] = {}
        self._made = 0
        self.activity: Any = None
        """What the workload answered when it was asked whether anybody uses it."""
        self.named: list[dict[str, Any]] = []
        """Objects that it may name and does not own."""

    def _next(self) -> int:
        self._made += 1
        return self._made

    def children(self) -> Any:
        from t9ksched.workloads.actions import Children
        from t9ksched.workloads.addons import ADDONS, Usable

        hidden = {
            res.api_version
            for addon in ADDONS
            for res in addon.made
            if self.addons.get(addon.project.name) is not Usable.SERVED
        }
        found = [
            copy.deepcopy(each)
            for _, each in sorted(self.objects.items())
            if each["kind"] != "Secret" and each.get("apiVersion") not in hidden
        ]
        return Children(
            tuple(each for each in found if each["kind"] == "Pod"),
            tuple(each for each in found if each["kind"] != "Pod"),
            self.activity,
            tuple(copy.deepcopy(self.named)),
            addons=self.addons,
        )

    def plan(self) -> Any:
        from t9ksched.workloads.reconcile import reconcile

        return reconcile(copy.deepcopy(self.obj), self.children(), self.now)

    def steps(self, actions: Any) -> list[tuple[str, Any]]:
        """The actions one by one, in the order in which they are carried out."""
        status = [("status", actions.status)] if actions.status is not None else []
        updates = [("update", each) for each in actions.update]
        return [
            *status,
            *updates,
            *(("delete", each) for each in actions.delete),
            *(step for each in actions.create for step in self._creation(each)),
        ]

    def _creation(self, thing: dict[str, Any]) -> list[tuple[str, Any]]:
        """The keys of a job are made, and then it is put on record that they are."""
        return [("create", thing), *([("record", thing)] if thing["kind"] == "Secret" else [])]

    def carry_out(self, actions: Any, most: int | None = None) -> None:
        """Do the actions, or only the first few as if the controller died then."""
        steps = self.steps(actions)
        for what, thing in steps if most is None else steps[:most]:
            if what == "status":
                self.obj["status"] = copy.deepcopy(thing)
            elif what == "update":
                self.objects[key_of(thing)] = copy.deepcopy(thing)
            elif what == "delete":
                self._delete(thing)
            elif what == "record":
                self._record(thing)
            elif not self._create(thing):
                self.events.append(thing["metadata"]["name"] + " is taken")
                return
        if most is None or most >= len(steps):
            self.events += actions.events

    def settle(self, rounds: int = 12) -> None:
        """Look and act until nothing is left to do."""
        for _ in range(rounds):
            actions = self.plan()
            if not actions:
                return
            self.carry_out(actions)
        raise AssertionError(f"still something to do after {rounds} rounds: {self.plan()}")

    def _delete(self, thing: dict[str, Any]) -> None:
        key = key_of(thing)
        there = self.objects.get(key)
        if there is not None and there["metadata"]["uid"] == thing["metadata"]["uid"]:
            del self.objects[key]
            self.collect()

    def collect(self) -> None:
        """The garbage collector: a Secret goes with the object that it belongs to."""
        known = {each["metadata"]["uid"] for each in self.objects.values()}
        for key, each in list(self.objects.items()):
            owners = {owner["uid"] for owner in each["metadata"].get("ownerReferences", ())}
            if each["kind"] == "Secret" and owners and not owners & known:
                del self.objects[key]

    def _record(self, secret: dict[str, Any]) -> None:
        from t9ksched.workloads.keypair import digest_of, is_token, on_record

        (holder,) = secret["metadata"]["ownerReferences"]
        key = holder["kind"], holder["name"]
        digest = digest_of(secret["metadata"]["name"]) if is_token(secret) else ""
        self.objects[key] = on_record(self.objects[key], secret, digest)

    def _create(self, thing: dict[str, Any]) -> bool:
        """Whether it is there now and is ours."""
        key = key_of(thing)
        if key in self.objects:
            return thing["kind"] != "Secret"  # the API server answers AlreadyExists; a Secret cannot be looked at
        fresh = copy.deepcopy(thing)
        if thing["kind"] == "Secret":
            (holder,) = fresh["metadata"]["ownerReferences"]
            holder["uid"] = self.objects[holder["kind"], holder["name"]]["metadata"]["uid"]
        fresh["metadata"]["uid"] = f"made-{self._next()}"
        fresh["metadata"]["creationTimestamp"] = self.now.isoformat()
        self.objects[key] = fresh
        if thing["kind"] == "Pod":
            self.created.append(thing["metadata"]["name"])
        return True

    def deploy(self) -> None:
        """The controller of Deployments: pods as the templates say, all of another template made anew at once."""
        for deployment in [each for key, each in self.objects.items() if key[0] == "Deployment"]:
            spec, name = deployment["spec"], deployment["metadata"]["name"]
            uid = deployment["metadata"]["uid"]
            mine = [key for key in self.objects if key[0] == "Pod" and self.objects[key].get("maker") == uid]
            for key in mine:
                pod = self.objects[key]
                kept = int(key[1].rpartition("-")[2]) < spec["replicas"] and pod["made_from"] == spec["template"]
                if not kept or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                    del self.objects[key]
            for nth in range(spec["replicas"]):
                if ("Pod", f"{name}-{nth}") not in self.objects:
                    fresh = copy.deepcopy(spec["template"])
                    head = {"name": f"{name}-{nth}", "uid": f"pod-{self._next()}", "namespace": "lab"}
                    pod = {"kind": "Pod", "spec": fresh["spec"], "metadata": {**fresh["metadata"], **head}}
                    self.objects["Pod", f"{name}-{nth}"] = {**pod, "maker": uid, "made_from": spec["template"]}
            ready = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
            counts = {"replicas": spec["replicas"], "readyReplicas": spec["replicas"]}
            deployment["status"] = {**counts, "conditions": [ready]}
        makers = {each["metadata"]["uid"] for each in self.objects.values()}
        for key, each in list(self.objects.items()):
            if key[0] == "Pod" and each.get("maker", next(iter(makers), "")) not in makers:
                del self.objects[key]

    def virtualise(self) -> None:
        """KubeVirt: a machine that is to run has a pod, made of the template as it is when the machine starts; it has
        its identity from the first start.
        """
        for machine in [each for key, each in self.objects.items() if key[0] == "VirtualMachine"]:
            name, spec = f"virt-launcher-{machine['metadata']['name']}", machine["spec"]
            pod, uid = self.objects.get(("Pod", name), {}), machine["metadata"]["uid"]
            ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if spec["runStrategy"] == "Halted" or ended or pod.get("maker") != uid:
                self.objects.pop(("Pod", name), None)
            if spec["runStrategy"] != "Halted" and ("Pod", name) not in self.objects:
                spec["template"]["spec"]["domain"].setdefault("firmware", {"uuid": f"id-{self._next()}"})
                self.objects["Pod", name] = {**launcher(machine, name, f"pod-{self._next()}"), "maker": uid}
            runs = ("Pod", name) in self.objects
            machine["status"] = {"created": runs, "ready": runs, "printableStatus": "Running" if runs else "Stopped"}
        if not any(key[0] == "VirtualMachine" for key in self.objects):
            for key in [key for key in self.objects if key[1].startswith("virt-launcher-")]:
                del self.objects[key]

    def serve(self) -> None:
        """Knative: the least pods of each Service, made anew for another template; Services and Routes are ready."""
        there = [each for key, each in self.objects.items() if key[0] in ("Service.knative", "Route.knative")]
        wanted = {}
        for each in there:
            name, uid = each["metadata"]["name"], each["metadata"]["uid"]
            ready = [{"type": "Ready", "status": "True"}]
            each["status"] = {"conditions": ready, "url": f"http://{name}.lab.example"}
            if each["kind"] == "Service":
                template = each["spec"]["template"]
                notes = template.get("metadata", {}).get("annotations", {})  # somebody may have emptied the template
                least = int(notes.get("autoscaling.knative.dev/min-scale", 0))
                wanted |= {f"{name}-00001-{nth}": (uid, template) for nth in range(least)}
        for key in [key for key in self.objects if key[0] == "Pod" and "-00001-" in key[1]]:
            pod = self.objects[key]
            uid, template = wanted.get(key[1], ("", {}))
            gone = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if gone or (pod["maker"], pod["made_from"]) != (uid, template):
                del self.objects[key]
        for name, (uid, template) in wanted.items():
            if ("Pod", name) not in self.objects:
                fresh = copy.deepcopy(template)
                head = {"name": name, "uid": f"pod-{self._next()}", "namespace": "lab"}
                fresh["metadata"]["labels"]["serving.knative.dev/revision"] = name.rpartition("-")[0]
                pod = {"kind": "Pod", "spec": fresh["spec"], "metadata": {**fresh["metadata"], **head}}
                self.objects["Pod", name] = {**pod, "maker": uid, "made_from": copy.deepcopy(template)}

    # What a test makes of pods.

    def pod(self, name: str) -> dict[str, Any]:
        return self.objects["Pod", name]

    def pods(self) -> list[str]:
        return sorted(name for kind, name in self.objects if kind == "Pod")

    def set_phase(self, name: str, phase: str, code: int | None = None, **status: Any) -> None:
        pod = self.pod(name)
        pod["spec"]["nodeName"] = "node-0"
        state: dict[str, Any] = {"running": {}} if phase == "Running" else {"waiting": {}}
        if code is not None:
            state = {"terminated": {"exitCode": code, "finishedAt": self.now.isoformat()}}
        ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        statuses = [{"name": each["name"], "state": state} for each in pod["spec"]["containers"]]
        pod["status"] = {"phase": phase, "conditions": ready, "containerStatuses": statuses, **status}

    def run_all(self) -> None:
        for name in self.pods():
            self.set_phase(name, "Running")

    def vanish(self, name: str) -> None:
        del self.objects["Pod", name]

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def status(self) -> dict[str, Any]:
        return self.obj.get("status") or {}

    def condition(self, kind: str) -> str:
        return next((each["status"] for each in self.status["conditions"] if each["type"] == kind), "absent")

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]
