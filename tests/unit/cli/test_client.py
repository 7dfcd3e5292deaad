import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, REQUEST_FAILED, Failure
from t9ksched.client.known import ClientFile
from tests.unit.cli.conftest import Service


def test_a_request_carries_the_token_and_leaves_out_unset_queries(service: Service) -> None:
    service.answers["GET /apis/v1/nodes"] = (200, {"items": []})
    assert Client.at(service.url, "t0ken").get("/apis/v1/nodes", limit=2, queue=None) == {"items": []}
    ((method, path, headers, _),) = service.seen
    assert (method, path) == ("GET", "/apis/v1/nodes?limit=2")
    assert headers["authorization"] == "Bearer t0ken"


def test_a_problem_becomes_a_failure_with_paths_and_remedy(service: Service) -> None:
    problem = {
        "code": "InvalidField",
        "detail": "The job cannot be used.",
        "errors": [{"path": "spec.replicaSpecs[0].replicas", "message": "must be positive"}],
    }
    service.answers["POST /apis/v1/workloads"] = (422, problem)
    with pytest.raises(Failure) as failure:
        Client.at(service.url, "").post("/apis/v1/workloads", {})
    assert failure.value.name == "InvalidField"
    assert failure.value.message == "The job cannot be used."
    assert failure.value.details == ("spec.replicaSpecs[0].replicas: must be positive",)
    assert failure.value.code == REQUEST_FAILED


@pytest.mark.parametrize(
    ("code", "remedy"),
    [("Unauthenticated", "--token"), ("QueueClosed", "queues open"), ("PreconditionFailed", "look again")],
)
def test_codes_that_say_little_get_a_remedy(service: Service, code: str, remedy: str) -> None:
    service.answers["GET /x"] = (400, {"code": code, "detail": "no"})
    with pytest.raises(Failure) as failure:
        Client.at(service.url, "").get("/x")
    assert remedy in failure.value.remedy


@pytest.mark.parametrize(("status", "content"), [(502, b"<html>bad gateway</html>"), (500, b""), (404, b"[1]")])
def test_an_error_that_is_no_problem_is_still_a_failure(service: Service, status: int, content: bytes) -> None:
    service.answers["GET /x"] = (status, content)
    with pytest.raises(Failure, match=str(status)):
        Client.at(service.url, "").get("/x")


def test_an_answer_that_is_not_json(service: Service) -> None:
    service.answers["GET /x"] = (200, b"<html>")
    with pytest.raises(Failure, match="not JSON"):
        Client.at(service.url, "").get("/x")


def test_no_server_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(Failure, match=f"Nothing answers at {url}") as failure:
            Client.at(url, "").get("/x")
    assert "t9ksched up" in failure.value.remedy


@pytest.mark.parametrize(
    ("path", "told"),
    [("query.month", "--month"), ("query.timeLimit", "--time-limit"), ("duration", "--for"), ("spec.a", "spec.a")],
)
def test_faults_are_told_of_options(service: Service, path: str, told: str) -> None:
    fault = {"path": path, "message": "'x' is wrong"}
    problem = {"code": "InvalidField", "detail": f"{path}: 'x' is wrong", "errors": [fault]}
    service.answers["PUT /x"] = (422, problem)
    with pytest.raises(Failure) as failure:
        Client.at(service.url, "").call("PUT", "/x", body={}, options={"duration": "--for"})
    assert (failure.value.message, failure.value.details) == (f"{told}: 'x' is wrong", ())


def test_a_connection_that_ends_while_a_file_is_sent_is_no_absent_service() -> None:
    def hang_up(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(1024)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(hang_up, listener)
        client = Client.at(f"http://127.0.0.1:{listener.getsockname()[1]}", "")
        with pytest.raises(Failure, match=r"closed the connection while 8192 KiB were being sent") as failure:
            client.call("POST", "/apis/v1/workloads", raw=bytes(8 << 20))
    assert "smaller files" in failure.value.remedy


@pytest.mark.parametrize("server", ["127.0.0.1:8080", "ftp://host", "http://", ""])
def test_addresses_that_are_none(server: str) -> None:
    with pytest.raises(Failure) as failure:
        Client.at(server, "")
    assert failure.value.code == BAD_USAGE


def test_where_the_service_is_found(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"client\.json does not exist"):
        Client.find(None, None, tmp_path)
    ClientFile("http://127.0.0.1:1", "remembered").write(tmp_path)
    found = Client.find(None, None, tmp_path)
    assert (found.server, found.token) == ("http://127.0.0.1:1", "remembered")
    assert Client.find(None, "mine", tmp_path).token == "mine"
    assert Client.find("http://127.0.0.1:1/", None, tmp_path).token == "remembered"


def test_a_remembered_token_is_never_shown_to_another_server(tmp_path: Path) -> None:
    ClientFile("http://127.0.0.1:1", "remembered").write(tmp_path)
    assert Client.find("http://elsewhere.example", None, tmp_path).token == ""
