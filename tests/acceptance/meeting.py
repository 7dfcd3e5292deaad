"""A program of a job's replicas that meet by nothing but what their environment and arguments say.

With TF_CONFIG each listens at its own address and calls all others. In the place of torchrun, the one at the endpoint
of the rendezvous waits until every other node has called. With MASTER_ADDR the master waits until every rank has
called. Else the arguments are the replica's type, how many call the one that leads, and its address.
"""

import json
import os
import socket
import sys
import threading
import time

PATIENCE = 60.0


def call(address: str, said: bytes) -> None:
    host, _, port = address.rpartition(":")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection((host, int(port)), 2) as connection:
                connection.sendall(said)
                connection.recv(2)
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_server((host, int(port)))


def heard(server: socket.socket, count: int) -> set[bytes]:
    """What so many callers say, each something of its own."""
    found: set[bytes] = set()
    while len(found) < count:
        connection, _ = server.accept()
        with connection:
            found.add(connection.recv(64))
            connection.sendall(b"ok")
    return found


def main() -> str:
    """Meet the others; what was met, for the log."""
    if "TF_CONFIG" in os.environ:
        config = json.loads(os.environ["TF_CONFIG"])
        task, cluster = config["task"], config["cluster"]
        own = cluster[task["type"]][task["index"]]
        others = [address for addresses in cluster.values() for address in addresses if address != own]
        server = listen(own)
        answers = threading.Thread(target=heard, args=(server, len(others)))
        answers.start()
        for address in others:
            call(address, own.encode())
        answers.join(PATIENCE)
        return f"met {len(others)}"
    options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
    if "rdzv_endpoint" in options:
        assert not {"RANK", "WORLD_SIZE"} & os.environ.keys(), "torchrun tells its processes their ranks itself"
        endpoint, own = options["rdzv_endpoint"], os.environ["HOSTNAME"]
        if endpoint.startswith(f"{own}."):
            return f"met {len(heard(listen(endpoint), int(options['nnodes']) - 1))}"
        call(endpoint, own.encode())
        return "called"
    if "MASTER_ADDR" in os.environ:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        if os.environ["RANK"] == "0":
            ranks = heard(listen(address), int(os.environ["WORLD_SIZE"]) - 1)
            return f"met {' '.join(sorted(rank.decode() for rank in ranks))}"
        call(address, os.environ["RANK"].encode())
    elif sys.argv[1] == "lead":
        return f"met {len(heard(listen(sys.argv[3]), int(sys.argv[2])))}"
    else:
        call(sys.argv[3], sys.argv[2].encode())
    return "called"


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
