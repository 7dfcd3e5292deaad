"""Addresses, names and ports of pods on one machine."""

import socket
from pathlib import Path
from typing import Any

from t9ksched.devcluster.local.names import Names, Ports, Translation, names_of


def pod(name: str, namespace: str = "default", subdomain: str = "gang") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"hostname": name, "subdomain": subdomain}}


def test_an_address_follows_from_the_name_and_is_nobody_elses(tmp_path: Path) -> None:
    names = Names(tmp_path)
    found = {names.learn(pod(f"p-{number}")) for number in range(2000)}
    assert len(found) == 2000
    assert all(address.startswith("127.") for address in found)
    assert Names(tmp_path).learn(pod("p-7")) == names.learn(pod("p-7"))
    assert names.learn(pod("p-7", "other")) not in found


def test_files_have_the_names_of_a_namespace_and_only_grow(tmp_path: Path) -> None:
    names = Names(tmp_path)
    one = names.learn(pod("a"))
    names.learn(pod("b", "other"))
    file = names.file("default")
    assert f"{one} a.gang.default.svc.cluster.local a.gang.default.svc a.gang.default a.gang a\n" in file.read_text()
    assert "b.gang" not in file.read_text()
    before = file.read_text()
    two = names.learn(pod("c"))
    names.learn(pod("a"))
    assert file.read_text().startswith(before)
    assert file.read_text().removeprefix(before).split()[0] == two
    again = Names(tmp_path)
    again.learn(pod("a"))
    assert again.file("default").read_text().count("a.gang.default.svc.cluster.local") == 1


def test_services_have_ports_of_their_own(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        busy = taken.getsockname()[1]
        ports = Ports(tmp_path / "ports")
        first = ports.of("one", [busy], [])
        assert first[busy] != busy
        second = ports.of("two", [busy], ["one"])
        assert second[busy] not in (busy, first[busy])
        assert Ports(tmp_path / "ports").of("one", [busy], ["two"]) == first, "kept over restarts"
        assert ports.of("three", [busy], ["two"])[busy] == first[busy], "given back by one that is gone"


def test_ports_and_names_are_put_into_what_is_started() -> None:
    gang = names_of(pod("g-0"))
    moved = Translation(gang, {29500: 29501})
    assert moved.variables({"MASTER_ADDR": "g-0.gang", "MASTER_PORT": "29500", "SIZE": "29500"}) == {
        "MASTER_ADDR": "g-0.gang",
        "MASTER_PORT": "29501",
        "SIZE": "29500",
    }
    assert moved.text("--rdzv_endpoint=g-0.gang:29500") == "--rdzv_endpoint=g-0.gang:29501"
    assert moved.text("tcp://g-0.gang.default:29500/x") == "tcp://g-0.gang.default:29501/x"
    assert moved.text("tcp://other:29500") == "tcp://other:29500"

    replaced = Translation(gang, {29500: 29501}, dict.fromkeys(gang, "127.64.0.1"))
    assert replaced.text("g-0.gang:29500 and g-0.gang") == "127.64.0.1:29501 and 127.64.0.1"
    assert replaced.text("my-g-0.gang g-0.gangs g-0.gang.org") == "my-g-0.gang g-0.gangs g-0.gang.org"
    assert replaced.text("train g-0") == "train g-0", "a name without a dot may be any word"
    assert Translation([], {}).text("a:1") == "a:1"


def test_paths_of_volumes_are_put_into_what_is_started_where_nothing_is_mounted() -> None:
    here = Translation([], {}, {}, {"/files": "/data/v/files", "/files/in": "/data/v/in"})
    assert here.text("/files/run /files/in/a --to=/files") == "/data/v/files/run /data/v/in/a --to=/data/v/files"
    assert here.text("/files2 /my/files x/files /files.d") == "/files2 /my/files x/files /files.d"
    assert here.variables({"PATH": "/bin:/files:/usr/bin"}) == {"PATH": "/bin:/data/v/files:/usr/bin"}
