"""A Kubernetes API in memory with simulated nodes, for laptops and tests.

It behaves as the real one does: status codes, conflicts, watches, binding. `apiserver` answers requests, `nodes` are
simulated kubelets with GPU cards, `controllers` make pods and volumes, `faults` break things on request, `audit` checks
that the objects add up. Begin with `cluster.py`, which composes the server, and `agents.py`, which makes it live.
"""
