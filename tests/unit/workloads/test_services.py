"""SimpleMLService, MLService and Explorer: what is made of them, where models come from, and what is refused."""

from typing import Any

import pytest

from t9ksched.workloads.addons import Usable
from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from t9ksched.workloads.serving import CannotFill, filled, merged
from tests.unit.workloads.builders import (
    World,
    container,
    explorer,
    ml_service,
    release,
    simple_ml,
    template,
    virtual_server,
)

Object = dict[str, Any]
S3 = {"uri": "s3://models/x", "secretRef": {"name": "keys"}}


def deployment(workload: Object, nth: int = 0) -> Object:
    found: Object = expand(workload).makers[nth]
    return found


def pod(workload: Object, nth: int = 0) -> Object:
    found: Object = deployment(workload, nth)["spec"]["template"]
    return found


def test_pods_of_a_deployment_say_whose_they_are_and_are_one_group() -> None:
    labels = pod(simple_ml())["metadata"]["labels"]
    assert labels["tensorstack.dev/owner-uid"] == "uid-digits"
    assert (labels["scheduler.tensorstack.dev/queue"], labels["scheduler.tensorstack.dev/group-name"]) == (
        "a100",
        "digits",
    )
    made = expand(simple_ml())
    assert made.podgroup is not None
    assert made.podgroup["spec"] == {"queue": "a100", "priority": 5, "minMember": 1}
    assert made.services[0]["spec"]["selector"].items() <= labels.items()
    assert pod(simple_ml())["spec"]["schedulerName"] == "t9k-scheduler"
    left = simple_ml(scheduler=None)
    assert expand(left).podgroup is None
    assert "schedulerName" not in pod(left)["spec"]


def test_programs_of_frameworks() -> None:
    (server,) = pod(simple_ml())["spec"]["containers"]
    assert server["command"][3:] == ["--model_name=digits", "--model_base_path=/var/lib/t9k/model"]
    (server,) = pod(simple_ml(pytorch={"image": "i", "modelsFlag": "a=a.mar"}))["spec"]["containers"]
    assert server["command"][-2:] == ["--models", "a=a.mar"]
    own = pod(simple_ml(custom={"nodeSelector": {"a": "b"}, **template()["spec"]}))["spec"]
    assert own["nodeSelector"] == {"a": "b"}, "the older place"


def test_models_are_mounted_or_copied() -> None:
    spec = pod(simple_ml())["spec"]
    assert spec["volumes"] == [{"name": "t9k-model", "persistentVolumeClaim": {"claimName": "models"}}]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "t9k-model", "mountPath": "/var/lib/t9k/model", "subPath": "mnist"}
    ]
    spec = pod(simple_ml(storage={"s3": {**S3, "containerPath": "/m"}}))["spec"]
    (first,) = spec["initContainers"]
    assert first["command"][-2:] == ["s3://models/x", "/m/"]
    assert first["resources"] == spec["containers"][0]["resources"], "it raises the request of the pod by nothing"


def test_the_status_says_whether_the_model_is_there_and_pods_answer() -> None:
    world = World(simple_ml(storage={"s3": S3}))
    world.settle()
    assert (world.condition("ModelDownloaded"), world.condition("Ready")) == ("False", "False")
    world.deploy()
    for name, code in (("digits-0", 0), ("digits-1", 1)):
        world.set_phase(name, "Pending")
        ended = {"exitCode": code, "message": "one\nno such bucket"}
        world.pod(name)["status"]["initContainerStatuses"] = [
            {"name": "download-model", "state": {"terminated": ended}}
        ]
    world.settle()
    told = {each["type"]: each for each in world.status["conditions"]}
    assert told["ModelDownloaded"]["message"] == "pod digits-1: s3cmd ended with 1: no such bucket"
    assert world.status["aggregate"]["pending"] == 2
    world.obj["spec"]["replicas"] = 0
    world.settle()
    assert (world.status["phase"], world.objects["Deployment", "digits"]["spec"]["replicas"]) == ("Paused", 0)
    assert "Suspended" in world.reasons()


def test_another_queue_is_for_pods_made_anew() -> None:
    world = World(simple_ml())
    world.settle()
    world.deploy()
    group = world.objects["PodGroup", "digits"]["metadata"]["uid"]
    world.obj["spec"]["scheduler"]["t9kScheduler"]["queue"] = "b"
    world.settle()
    assert world.objects["Deployment", "digits"]["spec"]["replicas"] == 0
    world.deploy()
    world.settle()
    made = world.objects["PodGroup", "digits"]
    assert (made["spec"]["queue"], made["metadata"]["uid"] != group) == ("b", True)
    assert world.objects["Deployment", "digits"]["spec"]["replicas"] == 2


RUNTIME: Object = {
    "apiVersion": "tensorstack.dev/v1beta1",
    "kind": "MLServiceRuntime",
    "metadata": {"name": "serve"},
    "spec": {
        "template": template(
            container("user-container", args=["--models {{if .MODEL_PATH}}{{.MODEL_PATH}}{{else}}all{{end}}"])
        )
    },
}


class Named(World):
    """With an MLServiceRuntime beside it."""

    runtimes: tuple[Object, ...] = (RUNTIME,)

    def children(self) -> Any:
        from dataclasses import replace

        return replace(super().children(), named=self.runtimes)


def test_pods_of_a_release_come_from_its_runtime() -> None:
    model = {"runtime": "serve", "parameters": {"MODEL_PATH": "a=a.mar"}}
    world = Named(ml_service(release("one", template=None, model=model, storage={"pvc": {"name": "c"}})))
    world.settle()
    made = world.objects["Deployment", "net-predict-one"]["spec"]["template"]["spec"]
    assert made["containers"][0]["args"] == ["--models a=a.mar"]
    assert made["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/lib/t9k/model"
    world.runtimes = ()
    world.settle()
    told = {each["type"]: each for each in world.status["conditions"]}
    assert (told["Ready"]["reason"], told["Ready"]["message"]) == (
        "RuntimeNotFound",
        "one: there is no MLServiceRuntime 'serve' in this namespace",
    )
    assert ("Deployment", "net-predict-one") in world.objects, "what it had stays"
    assert ("Service", "net") in world.objects


def test_a_service_without_pods_says_why_and_that_nothing_is_made() -> None:
    model = {"runtime": "serve"}
    world = Named(ml_service(release("one", template=None, model=model), release("two")))
    for reason, runtimes, told in (
        ("RuntimeNotFound", (), "one: there is no MLServiceRuntime 'serve' in this namespace; it goes on by itself"),
        ("PodInvalid", (RUNTIME,), "one: its pods would be wrong at containersResources[0].name: 'x' is no container"),
    ):
        world.runtimes = runtimes
        world.obj["spec"]["releases"][0]["predictor"]["containersResources"] = [{"name": "x", "resources": {}}]
        world.settle()
        shown = next(each for each in world.status["conditions"] if each["type"] == "Initialized")
        assert (shown["status"], shown["reason"]) == ("False", reason)
        assert shown["message"].startswith(told)
    assert [each.message for each in world.events if each.reason == "Created"] == ["1 Deployment is made"]
    world.obj["spec"]["releases"][0]["predictor"].pop("containersResources")
    world.settle()
    assert world.condition("Initialized") == "absent"
    alone = Named(ml_service(release("one", template=None, model={"runtime": "other"})))
    alone.settle()
    assert alone.reasons() == []


def test_releases_stand_side_by_side_and_one_answers() -> None:
    workload = ml_service(canary="two", canaryTrafficPercent=20)
    made = expand(workload)
    assert [each["metadata"]["name"] for each in made.makers] == ["net-predict-one", "net-predict-two"]
    front = next(each for each in made.services if each["metadata"]["name"] == "net")
    assert front["spec"]["selector"]["tensorstack.dev/service-part"] == "one"
    assert front["spec"]["ports"][0]["targetPort"] == 8000
    world = World(workload)
    world.settle()
    world.deploy()
    world.settle()
    told = {each["type"]: each for each in world.status["conditions"]}
    assert (told["Ready"]["status"], told["Autoscaled"]["status"]) == ("True", "False")
    assert "the canary 'two' gets no part of the requests" in told["Autoscaled"]["message"]
    assert [each["trafficPercent"] for each in world.status["releases"]] == [100, 0]
    world.obj["spec"]["releases"].pop()
    world.obj["spec"].pop("canary")
    world.settle()
    assert ("Deployment", "net-predict-two") not in world.objects
    world.obj["spec"]["runMode"] = "Paused"
    world.settle()
    assert (world.status["phase"], read(world.obj).totals) == ("Paused", {})


def custom(older: Any, newer: Any = None) -> Object:
    spec = {"containers": [container()], **({} if newer is None else {"nodeSelector": newer})}
    return simple_ml(custom={"nodeSelector": older, "spec": spec})


def on_knative(*releases: Object, **spec: Any) -> World:
    world = World(ml_service(*releases, **spec))
    world.addons = {"knative": Usable.SERVED}
    world.settle()
    world.serve()
    world.settle()
    return world


def kinds(world: World) -> set[str]:
    return {key[0] for key in world.objects} - {"Pod", "PodGroup"}


def autoscaled(world: World) -> tuple[str, str]:
    return next((each["status"], each["reason"]) for each in world.status["conditions"] if each["type"] == "Autoscaled")


def test_knative_scales_releases_and_divides_requests() -> None:
    one, two = release("one", 2, maxReplicas=5, containerConcurrency=8), release("two", 0)
    world = on_knative(one, two, canary="two", canaryTrafficPercent=20)
    made = world.objects["Service.knative", "net-predict-one"]
    template = made["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "autoscaling.knative.dev/min-scale": "2",
        "autoscaling.knative.dev/max-scale": "5",
    }
    assert (
        template["metadata"]["labels"].items()
        >= {
            "scheduler.tensorstack.dev/queue": "a100",
            "scheduler.tensorstack.dev/group-name": "net",
            "tensorstack.dev/owner-uid": "uid-net",
        }.items()
    )
    assert (template["spec"]["schedulerName"], template["spec"]["containerConcurrency"]) == ("t9k-scheduler", 8)
    assert made["metadata"]["labels"]["networking.knative.dev/visibility"] == "cluster-local"
    assert kinds(world) == {"Service.knative", "Route.knative"}
    assert world.objects["Route.knative", "net"]["spec"]["traffic"] == [
        {"configurationName": "net-predict-one", "latestRevision": True, "percent": 80},
        {"configurationName": "net-predict-two", "latestRevision": True, "percent": 20},
    ]
    assert (world.status["phase"], world.status["servedBy"], autoscaled(world)) == (
        "Running",
        "Knative",
        ("True", "Knative"),
    )
    assert world.status["address"]["url"] == "http://net.lab.example"
    assert [(each["trafficPercent"], each["totalReplicas"]) for each in world.status["releases"]] == [(80, 2), (20, 0)]
    world.obj["metadata"]["annotations"] = {"tensorstack.dev/visibility": "public"}
    world.obj["spec"]["runMode"] = {"pause": {"enabled": True}}
    world.settle()
    assert (world.status["phase"], kinds(world)) == ("Paused", set())
    world.obj["spec"]["runMode"] = {"pause": {"enabled": False}}
    world.settle()
    labels = world.objects["Route.knative", "net"]["metadata"]["labels"]
    assert "networking.knative.dev/visibility" not in labels


def test_requests_go_to_the_transformer_and_behind_it_they_are_divided() -> None:
    world = on_knative(transformer=release("", 1)["predictor"], canary="two", canaryTrafficPercent=100)
    shares = {name: world.objects["Route.knative", name]["spec"]["traffic"] for name in ("net", "net-predict")}
    assert [each["configurationName"] for each in shares["net"]] == ["net-transform"]
    assert [each["configurationName"] for each in shares["net-predict"]] == ["net-predict-two"]


def test_a_service_of_deployments_moves_to_knative_when_it_is_paused_and_resumed() -> None:
    world = World(ml_service())
    world.settle()
    assert autoscaled(world) == ("False", "NotAutoscaled")
    world.addons = {"knative": Usable.DENIED}
    world.settle()
    assert autoscaled(world) == ("False", "KnativeForbidden")
    world.addons = {"knative": Usable.SERVED}
    world.settle()
    assert (autoscaled(world), kinds(world)) == (("False", "MadeBeforeKnative"), {"Deployment", "Service"})
    for paused, there in ((True, set[str]()), (False, {"Service.knative", "Route.knative"})):
        world.obj["spec"]["runMode"] = {"pause": {"enabled": paused}}
        world.settle()
        assert kinds(world) == there


def test_there_are_never_two_sets_of_pods() -> None:
    world = on_knative()
    pods = world.pods()
    world.addons = {"knative": Usable.DENIED}
    world.settle()
    assert (autoscaled(world), "Deployment" in kinds(world)) == (("False", "KnativeGone"), False)
    world.addons = {}
    world.settle()
    assert not {"Deployment", "Service"} & kinds(world), "its pods are left"
    kept = {key: each for key, each in world.objects.items() if key[0].endswith(".knative")}
    world.objects = {key: each for key, each in world.objects.items() if key not in kept}
    world.serve()
    world.settle()
    assert pods
    assert (kinds(world), world.status["servedBy"]) == ({"Deployment", "Service"}, "Deployments")
    world.objects |= kept  # from a backup, with its definitions
    world.addons = {"knative": Usable.SERVED}
    world.settle()
    assert kinds(world) == {"Deployment", "Service"}


def root_disk(pvc: Object, **source: Object) -> Object:
    return virtual_server(storage={"root": {"pvc": pvc, "source": source}})


@pytest.mark.parametrize(
    ("workload", "path", "told"),
    [
        (simple_ml(storage={"s3": {"uri": "models"}}), "spec.storage.s3.uri", "is no folder of a bucket"),
        (simple_ml(storage={"s3": {"uri": "s3://a"}}), "spec.storage.s3.secretRef.name", "name the Secret"),
        (simple_ml(storage={"pvc": {"name": "a"}, "s3": S3}), "spec.storage", "give one of them"),
        (simple_ml(storage={"pvc": {"name": "a", "subPath": "../b"}}), "spec.storage.pvc.subPath", "leads out"),
        (simple_ml(storage={"pvc": {"name": "a", "mountPath": "b"}}), "spec.storage.pvc.mountPath", "begin it with /"),
        (simple_ml(service={"ports": [{"name": "a"}]}), "spec.service.ports[0].port", "is missing"),
        (simple_ml(service={"type": "ExternalName"}), "spec.service.type", "'ExternalName' is unknown"),
        (simple_ml(tensorflow={}), "spec.tensorflow.image", "TensorFlow Serving"),
        (
            simple_ml(strategy={"type": "Foo"}),
            "spec.strategy.type",
            "use one of RollingUpdate, Recreate",
        ),
        (simple_ml(strategy={"type": "Recreate", "rollingUpdate": {}}), "spec.strategy.rollingUpdate", "leave it out"),
        (ml_service(canary="one"), "spec.canary", "'one' is the default too"),
        (ml_service(runMode="stopped"), "spec.runMode", "'stopped' is unknown"),
        (
            ml_service(release("one", containersResources=[{"name": "x", "resources": {}}])),
            "spec.releases[0].predictor.containersResources[0].name",
            "'x' is no container of its pods: use one of user-container",
        ),
        (
            ml_service(release("one", template=None, containersResources=None)),
            "spec.releases[0].predictor.template.spec.containers",
            "name an MLServiceRuntime in model.runtime",
        ),
        (ml_service(default="x"), "spec.default", "'x' is no release: use one of one, two"),
        (ml_service(default=None), "spec.default", "is missing: name the release that answers"),
        (ml_service(release("one"), release("one")), "spec.releases[1].name", "is there twice"),
        (ml_service(release("A_b"), default="A_b"), "spec.releases[0].name", "becomes part of names"),
        (
            ml_service(release("one", maxReplicas=1, minReplicas=2)),
            "spec.releases[0].predictor.maxReplicas",
            "less than",
        ),
        (
            ml_service(release("one", model={"modelUri": "s3://a/b"})),
            "spec.releases[0].predictor.model.modelUri",
            "write pvc://CLAIM/PATH",
        ),
        (explorer(storageName="Bad_Name"), "spec.storageName", "'Bad_Name' is not a name"),
        (simple_ml(storage={"pvc": {"name": "a b"}}), "spec.storage.pvc.name", "'a b' is not a name"),
        (simple_ml(storage={"s3": {**S3, "secretRef": {"name": "A"}}}), "spec.storage.s3.secretRef.name", "is not a"),
        (custom({"a": "b"}, {"a": "c"}), "spec.custom.nodeSelector.a", "is 'b', but spec.custom.spec.nodeSelector.a"),
        (custom({"a": 3}), "spec.custom.nodeSelector.a", "must be a text"),
        (custom("a"), "spec.custom.nodeSelector", "must be a mapping"),
        (explorer(storageName=""), "spec.storageName", "name the PersistentVolumeClaim"),
        (explorer(storageType="s3"), "spec.storageType", "use one of pvc"),
        (virtual_server(storage={"root": {}}), "spec.storage.root.pvc.size", "say how large"),
        (virtual_server(resources={"cpu": {"cores": "x"}}), "spec.resources.cpu.cores", "'x'"),
        (virtual_server(resources={"memory": "-1"}), "spec.resources.memory", "-1"),
        (virtual_server(resources={"gpu": {"count": 1}}), "spec.resources.gpu.type", "name the cards"),
        (virtual_server(resources={"gpu": {"type": "a.b/c", "count": 65}}), "spec.resources.gpu.count", "at most 64"),
        (virtual_server(runStrategy="Often"), "spec.runStrategy", "'Often' is unknown"),
        (virtual_server(network={"tcp": [0]}), "spec.network.tcp[0]", "0"),
        (virtual_server(network={"tcp": [22, 22], "udp": [22]}), "spec.network.tcp[1]", "22 is there twice"),
        (virtual_server(network={"macAddress": "zz"}), "spec.network.macAddress", "'zz' is no address"),
        (virtual_server(network={"macAddress": "de:ad-00:00:be:af"}), "spec.network.macAddress", "is no address"),
        (virtual_server(network={"dnsPolicy": "Foo"}), "spec.network.dnsPolicy", "'Foo' is unknown"),
        (virtual_server(resources={"gpu": {"type": "not a type"}}), "spec.resources.gpu.type", "no resource of nodes"),
        (virtual_server(resources={"gpu": {"type": "gpu"}}), "spec.resources.gpu.type", "write domain/name"),
        (root_disk({"size": "x"}), "spec.storage.root.pvc.size", "'x'"),
        (root_disk({"size": 0}), "spec.storage.root.pvc.size", "above 0"),
        (
            root_disk({"size": "1Gi", "accessModes": ["RWX"]}),
            "spec.storage.root.pvc.accessModes[0]",
            "'RWX' is unknown",
        ),
        (root_disk({"size": "1Gi", "volumeMode": "Blk"}), "spec.storage.root.pvc.volumeMode", "'Blk' is unknown"),
        (root_disk({"size": "1Gi"}, ftp={}), "spec.storage.root.source.ftp", "is no source of a disk"),
        (root_disk({"size": "1Gi"}, http={}, s3={}), "spec.storage.root.source", "names http and s3"),
        (
            virtual_server(storage={"filesystems": [{"name": "a"}]}),
            "spec.storage.filesystems[0]",
            "names none as its source",
        ),
        (
            virtual_server(storage={"filesystems": [{"name": "a", "hostDisk": {"path": "/etc"}}]}),
            "spec.storage.filesystems[0].hostDisk",
            "is no source that a machine may have",
        ),
        (
            virtual_server(storage={"additionalDisks": [{"name": "root", "secret": {}}]}),
            "spec.storage.additionalDisks[0].name",
            "is there twice",
        ),
        (explorer(resources={"limits": {"cpu": "x"}}), "spec.resources.limits.cpu", "'x'"),
    ],
)
def test_what_cannot_be(workload: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(workload)}
    assert told in faults[path]


def test_a_machine_has_what_its_server_says() -> None:
    amounts = {"cpu": {"cores": "2", "model": "Conroe"}, "memory": "8Gi", "gpu": {"type": "nvidia.com/A10", "count": 2}}
    root = {"ephemeral": True, "pvc": {"size": "4Gi", "storageClassName": "fast"}, "bus": "sata"}
    disks = [{"name": "data", "serial": "A1", "persistentVolumeClaim": {"claimName": "c"}}]
    systems = [{"name": "conf", "configMap": {"name": "m"}}]
    network = {"tcp": [80], "udp": [53], "macAddress": "de:ad:00:00:be:af", "dnsPolicy": "None"}
    vm = virtual_server(
        resources=amounts,
        storage={"root": root, "additionalDisks": disks, "filesystems": systems},
        network=network,
        cloudInit="#cloud-config",
        firmware={"bootloader": {"efi": {}}},
        useVirtioTransitional=True,
    )
    made = expand(vm)
    spec = made.makers[0]["spec"]
    inner = spec["template"]["spec"]
    assert (spec["runStrategy"], inner["schedulerName"], inner["dnsPolicy"]) == ("Always", "t9k-scheduler", "None")
    assert spec["template"]["metadata"]["labels"]["scheduler.tensorstack.dev/queue"] == "a100"
    claim = {
        "resources": {"requests": {"storage": "4Gi"}},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
    }
    name = "managed-virtualserver-vm"
    assert spec["dataVolumeTemplates"] == [
        {"metadata": {"name": f"{name}-root"}, "spec": {"pvc": claim, "source": {"blank": {}}}}
    ]
    domain = inner["domain"]
    assert domain["resources"] == {"requests": {"cpu": "2", "memory": "8Gi"}}
    assert (domain["cpu"], domain["firmware"]) == ({"model": "Conroe"}, {"bootloader": {"efi": {}}})
    devices = domain["devices"]
    assert [each["deviceName"] for each in devices["gpus"]] == ["nvidia.com/A10"] * 2
    assert [(each["name"], each["disk"]["bus"]) for each in devices["disks"]] == [
        ("root", "sata"),
        ("data", "virtio"),
        ("cloudinit", "virtio"),
    ]
    assert devices["interfaces"][0]["macAddress"] == "de:ad:00:00:be:af"
    assert devices["filesystems"] == [{"name": "conf", "virtiofs": {}}]
    assert inner["volumes"] == [
        {"name": "root", "ephemeral": {"persistentVolumeClaim": {"claimName": f"{name}-root"}}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "conf", "configMap": {"name": "m"}},
        {"name": "cloudinit", "cloudInitNoCloud": {"userData": "#cloud-config"}},
    ]
    (door,) = made.services
    assert [each["name"] for each in door["spec"]["ports"]] == ["tcp-80", "udp-53"]
    assert door["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    assert read(vm).totals == {"cpu": 2000, "memory": 8 << 30, "nvidia.com/A10": 2}
    assert read(virtual_server(suspend=True)).totals == read(virtual_server(runStrategy="Halted")).totals == {}


def machine(world: World) -> Object:
    found: Object = world.objects["VirtualMachine", "managed-virtualserver-vm"]["spec"]
    return found


def test_a_machine_that_runs_is_stopped_before_it_is_another() -> None:
    world = World(virtual_server())
    world.settle()
    assert [each["reason"] for each in world.status["conditions"] if each["type"] == "Initialized"] == ["NotInstalled"]
    assert not world.objects, "nothing is made without KubeVirt"
    assert world.reasons() == ["NotInstalled"]
    world.addons = {"kubevirt": Usable.SERVED}
    world.settle()
    assert world.condition("DataImported") == "False"
    world.virtualise()
    world.settle()
    assert (world.status["phase"], world.condition("Initialized"), world.condition("DataImported")) == (
        "Running",
        "absent",
        "True",
    )
    world.obj["spec"]["cloudInit"] = "#other"
    (tried,) = world.plan().tried
    assert (tried["spec"]["runStrategy"], "#other" in str(tried["spec"])) == ("Always", True)
    world.settle()
    assert (machine(world)["runStrategy"], "#other" in str(machine(world))) == ("Halted", False)
    world.virtualise()
    after = world.plan()
    assert (after.status["phase"], after.tried) == ("Pending", ()), "its user paused nothing"
    world.settle()
    assert (machine(world)["runStrategy"], "#other" in str(machine(world))) == ("Always", True)
    world.virtualise()
    world.settle()
    assert world.reasons() == ["NotInstalled", "Created", "Start", "Changed", "Changed", "Start"]
    world.obj["spec"] |= {"cloudInit": "#third", "suspend": True}
    assert not world.plan().tried, "who suspends it is heard, whatever else changed"


def test_a_machine_that_users_stop_stays_so() -> None:
    world = World(virtual_server())
    world.addons = {"kubevirt": Usable.SERVED}
    world.settle()
    machine(world)["runStrategy"] = "Halted"  # as `virtctl stop` does
    world.virtualise()
    world.settle()
    assert (world.status["phase"], world.status["runStrategy"]) == ("Paused", "Halted")
    for suspended, strategy in ((True, "Halted"), (False, "Always")):
        world.obj["spec"]["suspend"] = suspended
        world.settle()
        assert machine(world)["runStrategy"] == strategy
    world.obj["spec"]["runStrategy"] = "Manual"
    world.settle()
    assert machine(world)["runStrategy"] == "Manual"


def test_an_explorer_is_reached_from_its_own_pod_alone() -> None:
    made = expand(explorer())
    assert made.services == ()
    words = [word for each in made.pods[0]["spec"]["containers"] for word in each["args"]]
    assert [word for word in words if "addr" in word] == ["--address=127.0.0.1", "--bind-addr=127.0.0.1:8080"]
    assert read(explorer(suspend=True)).totals == {}


@pytest.mark.parametrize(
    ("text", "parameters", "shown"),
    [
        ("--x={{.A}} {{ .B }}", {"A": "1"}, "--x=1 "),
        ("a {{- if .A }} b {{- else }} c {{- end }} d", {"A": "1"}, "a b d"),
        ("{{if .A}}{{if .B}}ab{{else}}a{{end}}{{else}}none{{end}}", {"A": "1"}, "a"),
        ("{{if .A}}{{if .B}}ab{{else}}a{{end}}{{else}}none{{end}}", {"B": "1"}, "none"),
    ],
)
def test_parameters_are_filled_in(text: str, parameters: dict[str, str], shown: str) -> None:
    assert filled({"args": [text, 3]}, parameters) == {"args": [shown, 3]}


@pytest.mark.parametrize("text", ["{{range .A}}", "{{if .A}}a", "{{end}}", "{{", "{{else}}", "{{.A.B}}"])
def test_other_templates_are_not_understood(text: str) -> None:
    with pytest.raises(CannotFill):
        filled(text, {})


def test_what_a_release_says_wins_by_name() -> None:
    below = {"containers": [{"name": "u", "image": "a", "args": ["x"], "env": [{"name": "A", "value": "1"}]}]}
    above = {"containers": [{"name": "p"}, {"name": "u", "image": "b", "env": [{"name": "B"}], "args": None}]}
    assert merged(below, above)["containers"] == [
        {"name": "u", "image": "b", "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
        {"name": "p"},
    ]


def test_labels_of_nodes_may_stand_where_they_stood_before() -> None:
    for job, wanted in (
        (custom({"a": "b"}), {"a": "b"}),
        (custom({"a": "b"}, {"a": "b", "c": "d"}), {"a": "b", "c": "d"}),
    ):
        (deployment,) = expand(job).makers
        assert deployment["spec"]["template"]["spec"]["nodeSelector"] == wanted
        assert read(job).templates[0].spec["nodeSelector"] == wanted
