"""What an idle scheduler costs on a large cluster: percent of a core, and the longest block of its event loop.

    uv run python tests/benchmarks/idle.py --nodes 5000 --pods 50000

The pods run and nothing happens; the metrics page is read once a second while blocks are measured. Everything else is
as in `restart.py`, whose numbers are printed too. Prints one JSON object.
"""

import sys

from restart import main

if __name__ == "__main__":
    main(["--pods", "50000", "--idle", "30", *sys.argv[1:]])
