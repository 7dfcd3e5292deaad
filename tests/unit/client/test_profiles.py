"""Profiles: how they are kept, what of them fills what is left out, and files that hold something else."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from t9ksched.client import ClientError
from t9ksched.client.calls import Call
from t9ksched.client.operations import Operations
from t9ksched.client.profiles import Profiles, filled
from t9ksched.client.running import run

TEAM: dict[str, Any] = {"image": "i", "gpus": 2, "env": {"A": "1", "HOME": None}, "mounts": ["data:/data"]}


def test_profiles_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path / "new")
    assert profiles.all() == {}
    profiles.put("team", TEAM)
    profiles.put("a", {"cpu": "1"})
    assert list(profiles.all()) == ["a", "team"]
    assert profiles.get("team") == TEAM
    (file,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    profiles.drop("team")
    assert list(profiles.all()) == ["a"]
    for act in (profiles.get, profiles.drop):
        with pytest.raises(ClientError, match="there is no profile 'team': there are a"):
            act("team")
    with pytest.raises(ValueError, match="is no name of a profile"):
        profiles.put("Team A", {})


def test_which_one_is_used(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path)
    assert profiles.used(None, {}) == {}
    profiles.put("default", {"cpu": "1"})
    profiles.put("team", {"cpu": "2"})
    profiles.put("mine", {"cpu": "3"})
    environment = {"T9KSCHED_PROFILE": "team"}
    found = [profiles.used(*said)["cpu"] for said in ((None, {}), (None, environment), ("mine", environment))]
    assert found == ["1", "2", "3"]
    with pytest.raises(ClientError, match="there is no profile 'other'"):
        profiles.used("other", {})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, TEAM),
        ({"gpus": 0}, TEAM | {"gpus": 0}),
        ({"queue": "q"}, TEAM | {"queue": "q"}),
        ({"env": {"A": "2", "B": "3"}}, TEAM | {"env": {"A": "2", "HOME": None, "B": "3"}}),
        ({"mounts": ["x:/x"]}, TEAM | {"mounts": ["data:/data", "x:/x"]}),
    ],
)
def test_what_is_given_comes_first(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert filled(given, TEAM) == found


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "holds no profiles"),
        ({"a": []}, "the profile 'a' is no mapping"),
        ({"a": {"imag": "x"}}, "the profile 'a' has 'imag', which is none of image,"),
        ({"a": {"image": 1}}, "'a' has a 'image' of the wrong type"),
        ({"a": {"gpus": "2"}}, "wrong type"),
        ({"a": {"gpus": True}}, "wrong type"),
        ({"a": {"env": {"A": 1}}}, "wrong type"),
        ({"a": {"mounts": "x"}}, "wrong type"),
        ({"a": {"torchrun": "yes"}}, "wrong type"),
    ],
)
def test_a_file_that_holds_something_else_is_told(tmp_path: Path, content: Any, told: str) -> None:
    (tmp_path / "profiles.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ClientError) as error:
        Profiles(tmp_path).all()
    assert told in str(error.value)
    assert str(tmp_path / "profiles.json") in str(error.value)


def sent(**words: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The object and the parameters of a submission."""
    call = next(run(Operations("http://x"), "python train.py", None, **words))
    assert isinstance(call, Call)
    return json.loads(call.body or b""), {key: value for key, value in call.query.items() if value is not None}


def test_a_program_names_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T9KSCHED_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/ann")
    Profiles(tmp_path).put("team", TEAM | {"time_limit": "2h", "namespace": "ml"})
    Profiles(tmp_path).put("default", {"image": "other"})
    obj, query = sent(profile="team", gpus=0, env={"B": "2"}, namespace=None)
    (container,) = obj["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "i"
    assert {one["name"]: one["value"] for one in container["env"]} == {"A": "1", "HOME": "/home/ann", "B": "2"}
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 2}, "0 is what is left out"
    assert query == {"namespace": "ml", "timeLimit": "2h"}
    with pytest.raises(ValueError, match="image: is missing"):
        sent()  # the one called default is for the command line
    monkeypatch.setenv("T9KSCHED_PROFILE", "team")
    assert sent(image="mine")[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "mine"
    monkeypatch.delenv("HOME")
    with pytest.raises(ValueError, match="HOME is not set here"):
        sent()
