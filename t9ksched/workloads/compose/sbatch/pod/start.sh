#!/bin/sh
# Runs the script as a batch job of Slurm is run: with the variables that tell it where it is, with srun, and with the
# signals that come to its pod. Kubernetes tells the first process of a container alone, which is this one.
_here="${0%/*}"
. "$_here/processes"
_to="${T9K_SIGNAL_TO:-all}"
_stop="${T9K_SIGNAL:-TERM}"
unset T9K_SIGNAL_TO T9K_SIGNAL
export SLURM_NODEID="${RANK:-0}"
export SLURM_LOCALID=0
export SLURM_PROCID=$((SLURM_NODEID * SLURM_NTASKS_PER_NODE))
export SLURM_LAUNCH_NODE_IPADDR="${MASTER_ADDR:-127.0.0.1}"
export SLURM_SUBMIT_DIR="${SLURM_SUBMIT_DIR:-$PWD}"
export SLURMD_NODENAME="${HOSTNAME:-localhost}"
export PATH="$_here:$PATH"
if [ -n "${T9K_ARRAY_INDEX:-}" ]; then
    export SLURM_ARRAY_TASK_ID="$T9K_ARRAY_INDEX"
fi

_script="" _told=""
tell() {
    _woken=yes _told=yes
    [ -n "$_script" ] || return 0
    look
    case "$_to" in
        script) _them="$_script" ;;
        steps) _them="${_steps:-$_others}" ;;
        *) _them="$_tree" ;;
    esac
    send "$1" "${_them:-$_script}"
}
for _name in HUP INT QUIT USR1 USR2; do
    trap "tell $_name" "$_name"
done
trap 'tell "$_stop"' TERM

"$_here/script" "$@" &
_script=$!
await "$_script"
_code="$_ended"
if [ -n "$_told" ]; then
    # The script has ended; whoever was told to stop may be saving what it has.
    look
    [ "$_to" = all ] || send TERM "$_tree"
    while [ -n "$_tree" ] && nap; do
        look
    done
fi
exit "$_code"
