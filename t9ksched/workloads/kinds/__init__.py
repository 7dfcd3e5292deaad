"""One file a kind, or a family of kinds: how its objects are read, and what they are expanded into.

Those that say "read only" are expanded by their own operators; we read which pods they will make. `xgboost.py` is the
shortest complete example, `generic.py` the one with most of its own.
"""
