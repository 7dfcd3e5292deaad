"""Values that users give: the last one wins, and each that cannot be used is named, with where it was given."""

from pathlib import Path

import pytest

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.manifests.overrides import given


def test_the_last_one_wins(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("scheduler: {replicas: 3, env: {A: x, B: y}, resources: {limits: {memory: 2Gi}}}")
    two.write_text("scheduler: {env: {B: z}, resources: {limits: null}}\nnamespace: {create: false}\n")
    values = given((one, two), ("api.replicas=4,image.tag=1.10", "rights.foreign={lws}"), ("scheduler.env.C=7",))
    assert (values.scheduler.replicas, values.api.replicas, values.controller.replicas) == (3, 4, 2)
    assert values.scheduler.env == {"A": "x", "B": "z", "C": "7"}
    assert values.image.tag == "1.10"
    assert values.rights.foreign == ["lws"]
    assert not values.namespace.create
    assert given((), ("image.pullSecrets[0]=7",)).image.pull_secrets == ["7"]
    assert given((), ("scheduler.resources.limits.memory=null",)).scheduler.resources.limits == {}


@pytest.mark.parametrize(
    ("assignment", "message", "remedy"),
    [
        (
            "scheduler.replica=3",
            "--set scheduler.replica=3: there is no value scheduler.replica.",
            "scheduler.replicas",
        ),
        ("networkPolicy.egres.enabled=true", "there is no value networkPolicy.egres", "networkPolicy.egress"),
        ("zzzzzzzz=1", "there is no value zzzzzzzz", "--show-values"),
        ("api.replicas=many", "api.replicas: Expected int, got str", ""),
        ("api.replicas=-1", "api.replicas: Expected int >= 0", ""),
        ("rights.foreign={ray}", "rights.foreign[0]: Invalid enum value 'ray'", "kuberay"),
        ("image.pullPolicy=No", "image.pullPolicy: Invalid enum value 'No'", "IfNotPresent, Always, Never"),
        ("api.replicas", "'api.replicas' changes nothing", "--set scheduler.replicas=3"),
        ("api..replicas=1", "a key is empty", "--set"),
        ("secretName.x=1", "secretName.x cannot be set: secretName is 't9ksched'", ""),
        ("secretName=", "secretName: it must be a name of Kubernetes: lower-case letters", ""),
        (
            "scheduler.priorityClassName=a: b",
            "scheduler.priorityClassName: it must be a name of Kubernetes, or empty",
            "",
        ),
        ("image.tag=x #y", "image.tag: it must be a tag of an image", ""),
        ("image.repository=a: b", "image.repository: it must be where an image is", ""),
        ("image.repository=r.example/t:1", "image.repository: it must be where an image is, without tag", ""),
        ("image.repository=r.example:5000", "image.repository: it must be where an image is, without tag", ""),
        ("image.digest=foo", "image.digest: it must be the digest of an image", ""),
        ("ingress.host=a b", "ingress.host: it must be a host", ""),
        ("scheduler.resources.requests.cpu=banana", "it must be an amount, such as 500m", ""),
        ("scheduler.env.A-B=1", "it must be the name of an environment variable", ""),
        ("scheduler.env.A={1}", "scheduler.env[...]: Expected str, got array", ""),
    ],
)
def test_what_cannot_be_used_is_named(assignment: str, message: str, remedy: str) -> None:
    with pytest.raises(Failure) as caught:
        given((), (assignment,))
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert caught.value.code == BAD_USAGE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scheduler: {replica: 1}", "there is no value scheduler.replica"),
        ("a: [", "is not YAML"),
        ("- 1", "has no mapping"),
        ("image: 7", "image: Expected object, got int"),
        ("1: 2", "there is no value"),
    ],
)
def test_files_are_read_alike(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    with pytest.raises(Failure, match=r"values\.yaml") as caught:
        given((file,), ())
    assert message in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Failure):
        given((tmp_path / "none.yaml",), ())
