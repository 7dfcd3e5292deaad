"""The options that sbatch has: their letters, and whether a value follows."""

from typing import Final

_VALUE: Final = (
    "A account, a array, b begin, c cpus-per-task, C constraint, d dependency, D chdir, e error, G gpus, i input,"
    " J job-name, L licenses, m distribution, M clusters, n ntasks, N nodes, o output, p partition, q qos,"
    " S core-spec, t time, w nodelist, x exclude, B extra-node-info, acctg-freq, batch, bb, bbf, cluster-constraint,"
    " comment, container, container-id, container-image, container-mounts, container-name, container-save,"
    " container-workdir, container-env, cores-per-socket, cpu-freq, cpus-per-gpu, deadline, delay-boot, export,"
    " export-file, extra, gid, gpu-bind, gpu-freq, gpus-per-node, gpus-per-socket, gpus-per-task, gres, gres-flags,"
    " hint, mail-type, mail-user, mcs-label, mem, mem-bind, mem-per-cpu, mem-per-gpu, mincpus, network,"
    " ntasks-per-core, ntasks-per-gpu, ntasks-per-node, ntasks-per-socket, open-mode, power, prefer, priority,"
    " profile, reservation, segment, signal, sockets-per-node, switches, thread-spec, threads-per-core,"
    " time-min, tmp, tres-bind, tres-per-task, uid, wckey, wrap, wait-all-nodes, F nodefile"
)
_FLAG: Final = (
    "H hold, h help, I immediate, O overcommit, Q quiet, s oversubscribe, v verbose, V version, W wait, Z no-allocate,"
    " contiguous, disable-stdout-job-summary, ignore-pbs, no-requeue, parsable, reboot, requeue, spread-job, stepmgr,"
    " test-only, usage, use-min-nodes, no-container-mount-home, container-mount-home, container-readonly,"
    " container-writable, container-remap-root, no-container-remap-root, container-entrypoint,"
    " no-container-entrypoint, consolidate-segments, spread-segments"
)
_PERHAPS: Final = "k no-kill, exclusive, get-user-env, nice, propagate, kill-on-invalid-dep, resv-ports, oom-kill-step"

ALSO: Final = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir"}
"""Other spellings."""


def _read(text: str, kind: str) -> dict[str, tuple[str, str]]:
    found = {}
    for entry in text.split(","):
        words = entry.split()
        found[words[-1]] = (words[0] if len(words) == 2 else "", kind)
    return found


VALUE, FLAG, PERHAPS = "value", "flag", "perhaps"
OPTIONS: Final = _read(_VALUE, VALUE) | _read(_FLAG, FLAG) | _read(_PERHAPS, PERHAPS)
"""By its long name the letter (empty for none), and whether a value follows; `perhaps` has one only behind `=`."""
LETTERS: Final = {letter: name for name, (letter, _) in OPTIONS.items() if letter}
