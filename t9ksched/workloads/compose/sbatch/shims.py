"""The programs that lie beside a script in its pods, as `pod/` has them: `start`, which runs the script, `srun`, which
starts its tasks, and `processes`, which both read.

They are written for any POSIX shell with `/proc`, for nobody knows what an image has. A shell that waits for a program
does not pass a signal on, and as the first process of a container it ignores most. So `start` is that process: it
passes signals on to those whom Slurm tells, and stays until they have ended.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = "/t9ksched"
"""Where pods have them. Not below a directory that machines have, so that it can be made for a pod of `up --here`."""
SIGNAL: Final = "T9K_SIGNAL"
"""The variable that names the signal that a script wants in place of SIGTERM."""
SIGNAL_TO: Final = "T9K_SIGNAL_TO"
"""The variable that says who gets it: all processes if it is not set, all but the script's own (`steps`), or that alone
(`script`).
"""
_HERE: Final = Path(__file__).parent / "pod"


def programs() -> dict[str, str]:
    """The programs by their names."""
    return {file.stem: file.read_text() for file in sorted(_HERE.glob("*.sh"))}
