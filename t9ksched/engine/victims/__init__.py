"""The search for victims: which running gangs make room for a gang of a higher queue.

`eligibility` says which gangs may go, `victim_search` which do; `victim_table` holds those that run as columns; `price`
is a rule that compares two sets of victims; `clearing`, `every_set` and `sparing` look for the cheapest set on a
`field` of nodes. Begin with `victim_search`.
"""
