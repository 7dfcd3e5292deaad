"""How the cards that a pod is given are written for its node: one file a dialect, one row each in `table.py`.

`dialect.py` says what a dialect is; `card_index.py` is the default one. Begin with `dialect.py`.
"""
