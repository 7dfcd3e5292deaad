"""Follows the objects of a kind, so that what is known of them stays equal to the server's state.

`reflector.py` reads everything once and then watches, and reads again where the stream has a gap; `known.py` holds what
it knows of the objects, `identity.py` what it remembers of each, `handler.py` is the protocol by which it reports
changes. Begin with `reflector.py`.
"""
