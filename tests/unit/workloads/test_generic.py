"""GenericJob: references to replicas, a Service for each, and rules that end the job."""

from typing import Any

import pytest

from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import World, container, generic, template

Object = dict[str, Any]
PORTS = {"ports": [{"name": "rpc", "port": 7000}, {"name": "web", "port": 80, "targetPort": 8080}]}


def started(job: Object) -> World:
    world = World(job)
    world.settle()
    world.run_all()
    world.settle()
    return world


def reason(world: World, kind: str) -> str:
    return next(each["message"] for each in world.status["conditions"] if each["type"] == kind)


def said(job: Object, pod: str) -> Object:
    """The container of a pod as it is made."""
    (found,) = (each for each in expand(job).pods if each["metadata"]["name"] == pod)
    first: Object = found["spec"]["containers"][0]
    return first


def test_references_are_replaced_in_commands_and_environment() -> None:
    words = ["$(type)", "$(rank)", "$(replicas[helper])", "$(service.lead[0].host):$(service.port[web])"]
    env = [{"name": "PEER", "value": "$(service.helper[1].host):$(service.port[rpc])"}]
    job = generic(lead={"command": words, "args": ["-n$(rank)"]}, helper={"command": words, "env": env}, service=PORTS)
    lead, helper = said(job, "pair-lead-0"), said(job, "pair-helper-1")
    assert lead["command"] == ["lead", "0", "2", "pair-lead-0:80"]
    assert lead["args"] == ["-n0"]
    assert helper["command"] == ["helper", "1", "2", "pair-lead-0:80"]
    assert helper["env"] == [{"name": "PEER", "value": "pair-helper-1:7000"}]


@pytest.mark.parametrize(
    "text",
    [
        "$$(rank)", "$(HOME)", "$(type foo)", "$(service nginx start)", "$(replicas)", "$rank", "$( rank )",
        "$(service.helper.host)", "echo $$(type)",
    ],
)  # fmt: skip
def test_what_is_no_reference_is_left_to_kubernetes_and_shells(text: str) -> None:
    job = generic(lead={"command": ["sh", "-c", text]}, service=PORTS)
    assert validate(job) == []
    assert said(job, "pair-lead-0")["command"][-1] == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$(replicas[chief])", "names a replica type 'chief' that spec.replicaSpecs does not have"),
        ("$(service.helper[2].host)", "names replica '2', but helper has 2, counted from 0"),
        ("$(service.helper[x].host)", "names replica 'x', but helper has 2"),
        ("$(service.port[ftp])", "names a port 'ftp' that spec.service.ports does not have"),
    ],
)
def test_references_to_what_is_not_there_are_reported(text: str, told: str) -> None:
    for field, path in (("command", "command[0]"), ("args", "args[0]"), ("env", "env[0].value")):
        words: Any = [{"name": "X", "value": text}] if field == "env" else [text]
        (fault,) = validate(generic(helper={field: words}, service=PORTS))
        assert fault.path == f"spec.replicaSpecs[1].template.spec.containers[0].{path}"
        assert told in fault.message


def test_addresses_need_a_service() -> None:
    for text in ("$(service.helper[0].host)", "$(service.port[rpc])"):
        (fault,) = validate(generic(lead={"command": [text]}))
        assert "needs spec.service" in fault.message
    (fault,) = validate(generic(runMode={"pause": {"resumeSpecs": [{"type": "lead", "args": ["$(service.port[a])"]}]}}))
    assert fault.path == "spec.runMode.pause.resumeSpecs[0].args[0]"


def test_each_replica_has_a_service_of_its_name() -> None:
    services = expand(generic(service=PORTS)).services
    assert [each["metadata"]["name"] for each in services] == ["pair-lead-0", "pair-helper-0", "pair-helper-1"]
    for each in services:
        assert each["spec"]["ports"] == [
            {"name": "rpc", "port": 7000, "targetPort": 7000},
            {"name": "web", "port": 80, "targetPort": 8080},
        ]
        (pod,) = (
            pod
            for pod in expand(generic(service=PORTS)).pods
            if each["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        )
        assert pod["metadata"]["name"] == each["metadata"]["name"]
    assert expand(generic()).services == ()


def test_nothing_else_is_added_to_the_environment() -> None:
    assert "env" not in said(generic(), "pair-lead-0")


@pytest.mark.parametrize(
    ("service", "path", "told"),
    [
        ({}, "spec.service.ports", "is missing"),
        ({"ports": [{"name": "a"}]}, "spec.service.ports[0].port", "is missing"),
        ({"ports": [{"port": 70000}]}, "spec.service.ports[0].port", "out of range"),
        ({"ports": [{"name": "a", "port": 1}, {"port": 2}]}, "spec.service.ports[1].name", "each needs a name"),
        ({"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}, "spec.service.ports[1].name", "two ports"),
        ("x", "spec.service", "must be a mapping"),
    ],
)
def test_ports_that_a_service_cannot_have(service: Any, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(generic(service=service))}
    assert told in faults[path]


@pytest.mark.parametrize("name", ["successRules", "failureRules"])
@pytest.mark.parametrize(
    ("rule", "path", "told"),
    [
        ({"chief": [0]}, "[0].chief", "is no type of spec.replicaSpecs: use one of lead, helper"),
        ({"helper": [0, 2]}, "[0].helper[1]", "2 is out of range: helper has 2 replicas"),
        ({"helper": [-1]}, "[0].helper[0]", "out of range"),
        ({"helper": "0"}, "[0].helper", "must be a list"),
        ({}, "[0]", "names no replica"),
        ({"helper": []}, "[0]", "names no replica"),
        (["helper"], "[0]", "must be a mapping"),
    ],
)
def test_rules_that_name_no_replica_of_the_job(name: str, rule: Any, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(generic(**{name: [rule]}))}
    assert told in faults[f"spec.{name}{path}"]


def test_the_job_succeeds_by_any_of_its_rules() -> None:
    rules = [{"lead": [0]}, {"helper": [0, 1]}]
    world = started(generic(successRules=rules))
    world.set_phase("pair-helper-0", "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Running"
    world.set_phase("pair-helper-1", "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert reason(world, "Completed") == 'by the rule {"helper": [0, 1]} of successRules'


def test_without_success_rules_all_must_succeed() -> None:
    world = started(generic())
    for name in ("pair-lead-0", "pair-helper-0"):
        world.set_phase(name, "Succeeded", 0)
        world.settle()
        assert world.status["phase"] == "Running"
    world.set_phase("pair-helper-1", "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"


def test_the_job_fails_when_all_replicas_of_a_rule_failed() -> None:
    world = started(generic(successRules=[{"lead": [0]}], failureRules=[{"helper": [0, 1]}]))
    world.set_phase("pair-helper-1", "Failed", 3)
    world.settle()
    assert world.status["phase"] == "Running", "the other helper still runs"
    world.set_phase("pair-helper-0", "Failed", 3)
    world.settle()
    assert (world.status["phase"], world.condition("Completed")) == ("Failed", "True")
    assert reason(world, "Failed").startswith('by the rule {"helper": [0, 1]} of failureRules: pod pair-helper-0 ended')


def test_the_job_fails_when_no_success_rule_can_hold_any_more() -> None:
    world = started(generic(successRules=[{"lead": [0], "helper": [0]}, {"helper": [1]}]))
    world.set_phase("pair-lead-0", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Running"
    world.set_phase("pair-helper-1", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert reason(world, "Failed").startswith("none of successRules can hold any more: pod pair-")


def test_restarts_are_used_up_before_a_replica_counts_as_failed() -> None:
    job = generic(failureRules=[{"lead": [0]}])
    job["spec"]["replicaSpecs"][0]["restartPolicy"] = {"policy": "OnFailure", "limit": 2}
    world = started(job)
    for turn in (1, 2):
        world.set_phase("pair-lead-0", "Failed", 1)
        world.settle()
        world.later(100)
        world.settle()
        assert world.status["tasks"][0]["restartCount"] == turn
        world.run_all()
        world.settle()
    world.set_phase("pair-lead-0", "Failed", 1)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert "backoffCount" not in world.status


def test_a_replica_that_is_always_restarted_succeeds_once_its_restarts_are_used_up() -> None:
    job = generic(successRules=[{"lead": [0]}])
    job["spec"]["replicaSpecs"][0]["restartPolicy"] = {"policy": "Always", "limit": 1}
    world = started(job)
    world.set_phase("pair-lead-0", "Succeeded", 0)
    world.settle()
    assert (world.status["phase"], world.created.count("pair-lead-0")) == ("Pending", 2)
    world.set_phase("pair-lead-0", "Succeeded", 0)
    world.later(100)
    world.settle()
    assert (world.status["phase"], world.created.count("pair-lead-0")) == ("Succeeded", 2)


@pytest.mark.parametrize(
    ("policy", "left"),
    [(None, 3), ("None", 3), ("Unfinished", 1), ("All", 0)],
)
def test_clean_up_is_a_field_of_the_spec(policy: str | None, left: int) -> None:
    world = started(generic(successRules=[{"lead": [0]}], **({"cleanUpPolicy": policy} if policy else {})))
    world.set_phase("pair-lead-0", "Succeeded", 0)
    world.settle()
    assert len(world.pods()) == left


def test_debugging_waits_and_resuming_runs_what_was_given() -> None:
    debug = {"enabled": True, "replicaSpecs": [{"type": "helper", "command": ["rank", "$(rank)"]}]}
    world = started(generic(lead={"command": ["x"]}, runMode={"debug": debug}))
    assert world.pod("pair-lead-0")["spec"]["containers"][0]["command"] == ["sleep", "inf"]
    assert world.pod("pair-helper-1")["spec"]["containers"][0]["command"] == ["rank", "1"]

    resume = [{"type": "lead", "args": ["again", "$(replicas[helper])"]}]
    world = started(generic(lead={"command": ["x"]}, runMode={"pause": {"enabled": True, "resumeSpecs": resume}}))
    assert (world.status["phase"], world.pods()) == ("Paused", [])
    world.obj["spec"]["runMode"]["pause"]["enabled"] = False
    world.settle()
    lead = world.pod("pair-lead-0")["spec"]["containers"][0]
    assert (lead["command"], lead["args"]) == (["x"], ["again", "2"])


def test_types_are_matched_without_regard_to_case() -> None:
    types = [{"type": "PS", "replicas": 2, "template": template(container(command=["$(service.PS[1].host)"]))}]
    job = generic(service=PORTS, successRules=[{"PS": [0, 1]}])
    job["spec"]["replicaSpecs"] = types
    assert said(job, "pair-ps-0")["command"] == ["pair-ps-1"]
    assert read(job).templates[0].role == "PS"
