"""Profiles, from outside: options that are left out of `run` are filled, and nothing secret is shown."""

import json

from tests.acceptance.conftest import Up, run


def test_a_profile_fills_what_is_left_out(up: Up) -> None:
    assert "No profiles. Make one:" in up.must("profile", "list")
    words = ("--image", "busybox", "--gpus", "2", "--queue", "a100", "-e", "SECRET=hidden", "--time-limit", "2h")
    try:
        made = up.must("profile", "set", "team", *words)
        assert made == "profile team: --image busybox --queue a100 --time-limit 2h --gpus 2 --env SECRET=…\n"
        up.must("profile", "set", "team", "--memory", "8Gi", "--unset", "--time-limit")
        assert "hidden" not in up.must("profile", "list") + up.must("profile", "show", "team")
        kept = json.loads(up.must("profile", "show", "team", "-o", "json"))
        env = {"SECRET": "hidden"}
        assert kept["options"] == {"image": "busybox", "gpus": 2, "queue": "a100", "env": env, "memory": "8Gi"}
        dry = ("run", "--dry-run", "-o", "json", "--name", "p")
        told = json.loads(up.must(*dry, "--profile", "team", "--gpus", "1", "-e", "A=b", "--", "true"))
        (container,) = told["object"]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "busybox"
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "8Gi"}
        assert [one["name"] for one in container["env"]] == ["SECRET", "A"]
        assert told["items"][0]["queue"] == "a100"
        assert "--image is missing" in up.cli(*dry, "--", "true").err, "it is used only where it is named"
        up.must("profile", "set", "default", "--image", "other")
        told = json.loads(up.must(*dry, "--", "true"))
        assert told["object"]["spec"]["template"]["spec"]["containers"][0]["image"] == "other"
        named = run(*dry, "--", "true", data_dir=up.data_dir, also={"T9KSCHED_PROFILE": "team"})
        assert named.json["items"][0]["queue"] == "a100"
    finally:
        for name in ("team", "default"):
            up.cli("profile", "delete", name)
    assert json.loads(up.must("profile", "list", "-o", "json")) == {"items": []}


def test_bad_words_are_told(up: Up) -> None:
    for words, code, told in (
        (("run", "--profile", "nope", "--", "true"), 2, "there is no profile 'nope': there are none yet"),
        (("profile", "set", "x"), 2, "Nothing is set."),
        (("profile", "set", "A_B", "--cpu", "1"), 2, "'A_B' is no name of a profile"),
        (("profile", "set", "x", "--unset", "wings"), 2, "a profile has no such option"),
        (("profile", "set", "x", "--mount", "data"), 2, "--mount: 'data' is no mount"),
        (("profile", "set", "x", "--env", "1=2"), 2, "--env: '1=2' is no variable"),
        (("profile", "set", "x", "--gpus", "many"), 2, "Invalid value for '--gpus'"),
        (("profile", "show", "x"), 1, "there is no profile 'x'"),
        (("profile", "delete", "x"), 1, "there is no profile 'x'"),
    ):
        done = up.cli(*words)
        assert (done.code, told in done.err) == (code, True), done.err
