"""The API server: HTTP, operations on objects, storage with resource versions, watches, kinds and their rules.

A request goes through `http.py` (users, paths), `requests.py` (bodies and answers), `api.py` (read, create, update,
patch, delete), the strategy of its kind (`kinds.py`, `strategy.py`) and `storage.py`; `watch.py` serves watches.
Begin with `api.py`.
"""
