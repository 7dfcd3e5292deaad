"""The scheduler's own engine on virtual time: replays of recorded workloads, and walks from the present of a cluster.

`traces` reads files of jobs, `cluster` makes the nodes, `policies` names what is compared, `replay` moves the time from
event to event and lets the planner of the live service decide at each; `figures` sums up what came of it. Begin with
`replay`. Walks start from a `present` (`outlook`), and say what a change does (`whatif`). Nothing here reads a clock or
a cluster.
"""
