"""Processes that add up numbers together, meeting by MASTER_ADDR and MASTER_PORT; with torch where it is installed.

Each gives rank + 1 in every step, and all see the same sum. A process that is lost and started again takes its place:
the others wait for it.
"""

import os
import socket
import time

RANK, WORLD, STEPS = (int(os.environ.get(name, "1")) for name in ("RANK", "WORLD_SIZE", "STEPS"))
MASTER = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def told(step: int, total: int, how: str) -> None:
    cards = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
    print(
        f"rank {RANK} of {WORLD}, process {os.getpid()}, cards {cards}: step {step}, sum {total} by {how}", flush=True
    )


def gather() -> None:
    """Rank 0: take a number of every other rank, and give all of them the sum."""
    peers: dict[int, socket.socket] = {}
    step = 1
    with socket.create_server(MASTER) as server:
        while step <= STEPS:
            total, heard = RANK + 1, set()
            while len(heard) < WORLD - 1:
                while len(peers) < WORLD - 1:  # somebody has not come yet, or was lost
                    connection, _ = server.accept()
                    if greeting := line_of(connection).split():
                        peers[int(greeting[0])], step = connection, max(step, int(greeting[1]))
                for rank, connection in list(peers.items()):
                    if rank not in heard:
                        if line := line_of(connection):
                            total += int(line)
                            heard.add(rank)
                        else:
                            del peers[rank]
            for connection in peers.values():
                send(connection, f"{step} {total}")
            told(step, total, "sockets")
            step += 1


def contribute() -> None:
    """Other ranks: give a number, get the sum; meet again when rank 0 was lost."""
    step = 1
    connection = meet(step)
    while step <= STEPS:
        send(connection, f"{RANK + 1}")
        if line := line_of(connection):
            step, total = map(int, line.split())
            told(step, total, "sockets")
            step += 1
            time.sleep(0.2)
        else:
            connection = meet(step)


def meet(step: int) -> socket.socket:
    while True:
        try:
            connection = socket.create_connection(MASTER)
        except OSError:
            time.sleep(0.1)  # rank 0 does not listen yet
        else:
            send(connection, f"{RANK} {step}")
            return connection


def send(connection: socket.socket, line: str) -> None:
    try:
        connection.sendall(f"{line}\n".encode())
    except OSError:
        return  # the next read tells


def line_of(connection: socket.socket) -> str:
    text = b""
    try:
        while not text.endswith(b"\n"):
            if not (byte := connection.recv(1)):
                return ""
            text += byte
    except OSError:
        return ""
    return text.decode()


def with_torch() -> None:
    import torch
    from torch import distributed

    cuda = torch.cuda.is_available()
    distributed.init_process_group("nccl" if cuda else "gloo")
    for step in range(1, STEPS + 1):
        number = torch.tensor(RANK + 1, device="cuda" if cuda else "cpu")
        distributed.all_reduce(number)
        told(step, int(number), f"torch ({distributed.get_backend()})")
        time.sleep(0.2)
    distributed.destroy_process_group()


try:
    with_torch()
except ImportError:
    gather() if RANK == 0 else contribute()
