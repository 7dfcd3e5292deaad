"""Replays recorded workloads through the scheduler's own engine, on virtual time.

`traces` reads files of jobs, `cluster` makes the nodes, `policies` names what is compared, `replay` moves the time from
event to event and lets the planner of the live service decide at each; `figures` sums up what came of it. Begin with
`replay`. Nothing here reads a clock or a cluster.
"""
