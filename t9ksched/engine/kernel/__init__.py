"""Gangs that start one after the other, on tables of numbers alone: the innermost loop of a cycle.

`tables.py` has what it reads and writes, `reference.py` says what it does, in Python and numpy. `kernel.c` does the
same in machine code, where a C compiler was found at installation; `native.py` calls it. Both give equal runs, to the
byte. Read `tables.py` first.

Scores of nodes for gangs that have their turns are found in machine code, too: `keys.c` does what numpy does in
`placement/class_keys.py`, `packing.c` what it does in `placement/packing.py`.
"""
