# Which processes a signal is for, and waiting for them: read by start and srun. Every process gets a signal once: what
# runs below an srun gets it from there.

# look: sets _tree to the processes below this shell, also those whose parents have ended if it leads a session, as the
# first process of a container does, but for those below an srun; _steps to the sruns among them, _others to those that
# are neither srun nor $_script.
look() {
    _known="" _sruns=" " _session=""
    for _place in /proc/[0-9]*; do
        _line=""
        while IFS= read -r _part || [ -n "$_part" ]; do
            _line="$_line $_part"
        done 2>/dev/null <"$_place/stat"
        _pid="${_place#/proc/}"
        # The name, in parentheses, may hold anything.
        fields ${_line##*) }
        [ "$_state" != Z ] || continue
        if [ "$_pid" = "$$" ]; then
            _session="$_group"
            continue
        fi
        case "$_line" in " $_pid (srun) "*) _sruns="$_sruns$_pid " ;; esac
        _known="$_known $_pid:$_parent:$_group"
    done
    below "$_sruns"
    _covered="$_found"
    below " $$ "
    _tree="" _steps="" _others=""
    for _one in $_known; do
        parts "$_one"
        case "$_covered" in *" $_pid "*) continue ;; esac
        case "$_found" in
            *" $_pid "*) ;;
            *) [ "$_session" = "$$" ] && [ "$_group" = "$$" ] || continue ;;
        esac
        _tree="$_tree $_pid"
        case "$_sruns" in
            *" $_pid "*) _steps="$_steps $_pid" ;;
            *) [ "$_pid" = "${_script:-}" ] || _others="$_others $_pid" ;;
        esac
    done
}

# fields STATE PARENT GROUP SESSION …: sets _state, _parent, and _group to the session.
fields() {
    _state="${1:-Z}" _parent="${2:-}" _group="${4:-}"
}

# parts PID:PARENT:SESSION: sets _pid, _parent, _group.
parts() {
    _pid="${1%%:*}" _parent="${1#*:}" _group="${1##*:}"
    _parent="${_parent%%:*}"
}

# below " PID… ": sets _found to the processes below these.
below() {
    _found=" " _grown=yes
    while [ -n "$_grown" ]; do
        _grown=""
        for _one in $_known; do
            parts "$_one"
            case "$_found" in *" $_pid "*) continue ;; esac
            case "$1$_found" in *" $_parent "*) _found="$_found$_pid " _grown=yes ;; esac
        done
    done
}

# send SIGNAL PIDS
send() {
    for _one in $2; do
        kill -s "$1" "$_one" 2>/dev/null
    done
}

# await PID: sets _ended to its exit code, also where a signal, which sets _woken, comes while this waits.
await() {
    _woken=""
    wait "$1"
    _ended=$?
    while [ -n "$_woken" ]; do
        _woken=""
        wait "$1"
        _again=$?
        # It had ended as the signal came, and is forgotten.
        [ "$_again" -eq 127 ] || _ended="$_again"
    done
}

# nap: a moment; fails where there is no sleep.
nap() {
    sleep 0.2 2>/dev/null || sleep 1
}
