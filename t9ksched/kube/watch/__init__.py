"""Pictures of a kind of objects, kept equal to the server's.

`reflector.py` reads everything once and then watches, and reads again where the stream has a gap; `known.py` is what it
knows of the objects, `identity.py` what it remembers of each, `handler.py` what it tells. Begin with `reflector.py`.
"""
