"""Pictures of a kind of objects, kept equal to the server's.

`reflector.py` reads everything once and then watches, and reads again where the stream has a gap; `identity.py` is all
that it remembers of an object. Begin with `reflector.py`.
"""
