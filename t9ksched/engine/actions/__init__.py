"""The actions by which a cycle serves a gang, one file each.

The planner has them in a table: `allocate` places the minimum, `preempt` chooses victims for one that found no room,
`reserve` plans a start for one that has to wait, `grow` places members above the minimum. `fit` and `make_way` are what
they share. An action works in slices; it commits to the trial, or leaves it as it was.
"""
