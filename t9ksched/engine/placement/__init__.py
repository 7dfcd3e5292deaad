"""Where pods may go and where they go: what nodes allow, how well each fits, and packing a gang, on a trial.

`feasibility` says which nodes a pod may use at all, `scores` ranks them, `trial` is the what-if with undo on which
`pack` places pods; `search` is for unlike pods, `topology` for gangs that stay together, `pod_affinity` for rules about
other pods. Begin with `trial` and `pack`.
"""
