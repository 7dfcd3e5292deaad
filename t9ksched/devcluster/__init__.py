"""A Kubernetes API in memory with simulated nodes, for laptops and tests.

It behaves as a real API server does: status codes, conflicts, watches, binding. `apiserver` answers requests, `nodes`
are simulated kubelets with GPU cards, `controllers` make pods and volumes, `faults` injects failures on request,
`audit` checks that the objects are consistent. Begin with `cluster.py`, which composes the server, and `agents.py`,
which runs the simulated parts.
"""
