"""What to do: a pure function from a frozen view of the cluster to a plan.

`NodeTable` is the live picture, `View` what one cycle decides on, `plan(view, policy, now)` the decision. Nothing in
this room does input or output, reads a clock or logs; everything that decides is a whole number, so plans repeat to the
byte.
"""
