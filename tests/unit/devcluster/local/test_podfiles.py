"""What cannot be had on a machine whose user may mount nothing."""

import pytest

from t9ksched.devcluster.local.podfiles import fault_of

VOLUMES = [
    {"name": "files", "configMap": {"name": "files"}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "host", "hostPath": {"path": "/tmp"}},
]


@pytest.mark.parametrize(
    ("volume", "path", "command", "runs"),
    [
        ("files", "/files", ["/files/run"], True),
        ("files", "/files", ["sh", "-c", "cat /files/a"], True),
        ("files", "/files", ["cat", "/files2/a"], False),
        ("files", "/files", ["python", "reads.py"], False),
        ("scratch", "/scratch", ["cat", "/scratch/a"], False),
        ("host", "/tmp", ["true"], True),
        ("host", "/elsewhere", ["true"], False),
    ],
)
def test_volumes_without_mounts(volume: str, path: str, command: list[str], runs: bool) -> None:
    container = {"name": "main", "command": command, "volumeMounts": [{"name": volume, "mountPath": path}]}
    pod = {"metadata": {"name": "p"}, "spec": {"volumes": VOLUMES, "containers": [container]}}
    assert (fault_of(pod, 1000, 1000, "not permitted") == "") is runs
