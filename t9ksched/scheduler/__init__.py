"""The service: it keeps the state, asks the engine, and carries out what the engine decided.

The path through the packages: `observe` (from the watches) fills `state` (the one owner of what is known and assumed),
`decide` plans on a view of it, `act` carries the plan out. `report` tells the world, `keep` looks at deadlines and
tables, `serve` answers what only the leader knows. Begin with `service.py`, which puts the parts together, and
`decide/loop.py`, which drives them.
"""
