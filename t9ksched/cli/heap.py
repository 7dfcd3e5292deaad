"""Takes the objects that were loaded at the start, and stay as long as the process, out of the garbage collector's
sight.

Modules, tables and routes are 200,000 objects, and walking them takes 0.1 s, in which nothing else runs. One large
request makes enough objects to set that off.
"""

import gc


def settle() -> None:
    """Leave out of later collections what is there now; called once, when everything is loaded."""
    gc.collect()
    gc.freeze()
