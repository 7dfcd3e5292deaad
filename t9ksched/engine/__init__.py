"""What to do: a pure function from a frozen view of the cluster to a plan.

`NodeTable` holds the live nodes, `View` is what one cycle decides on, `plan(view, policy, now)` decides. Nothing in
this package does input or output, reads a clock or logs. Only whole numbers decide, so plans repeat to the byte. Begin
with `planner.py`.
"""
