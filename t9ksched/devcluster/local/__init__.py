"""One node that is this machine: the containers of its pods are processes here, run as the user who started it.

It is no sandbox. `machine.py` describes the node, `kubelet.py` runs its pods: `lifecycle.py` decides what to start and
what to write, `runtime.py` starts containers and finds them again after a restart. Each container has a process of its
own over it, `supervisor.py`, which outlives `t9ksched up`. Begin with `kubelet.py`.
"""
