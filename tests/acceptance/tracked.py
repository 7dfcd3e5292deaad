"""A program of an XGBoostTrainingJob: rank 0 runs the tracker of xgboost, and all replicas add up their ranks by it."""

import os
import socket
import sys

import numpy
from xgboost import collective
from xgboost.tracker import RabitTracker

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address, port = socket.gethostbyname(os.environ["MASTER_ADDR"]), int(os.environ["MASTER_PORT"])
tracker = RabitTracker(size, host_ip=address, port=port, timeout=60) if rank == 0 else None
if tracker is not None:
    tracker.start()
with collective.CommunicatorContext(dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_retry=30):
    total = collective.allreduce(numpy.array([rank]), collective.Op.SUM)
    sys.stdout.write(f"the sum of {size} ranks is {int(total[0])}\n")
if tracker is not None:
    tracker.wait_for()
