"""The actions by which a cycle serves a gang, one file each.

The planner has them in a table: `allocate` places the minimum, `preempt` chooses victims for one that found no room,
`grow` places members above the minimum. An action works in slices; it commits to the trial, or leaves it as it was.
"""
