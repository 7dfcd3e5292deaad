"""The two programs that lie beside a script in its pods: `start`, which runs it, and `srun`, which starts its tasks."""

from typing import Final

FOLDER: Final = "/t9ksched"
START: Final = """#!/bin/sh
# Runs the script as a batch job of Slurm is run: with the variables that tell it where it is, and with srun.
export SLURM_NODEID="${RANK:-0}"
export SLURM_LOCALID=0
export SLURM_PROCID=$((SLURM_NODEID * SLURM_NTASKS_PER_NODE))
export SLURM_LAUNCH_NODE_IPADDR="${MASTER_ADDR:-127.0.0.1}"
export SLURM_SUBMIT_DIR="${SLURM_SUBMIT_DIR:-$PWD}"
export SLURMD_NODENAME="${HOSTNAME:-localhost}"
export PATH="${0%/*}:$PATH"
if [ -n "${T9K_ARRAY_INDEX:-}" ]; then
    export SLURM_ARRAY_TASK_ID="$T9K_ARRAY_INDEX"
fi
exec "${0%/*}/script" "$@"
"""
SRUN: Final = """#!/bin/sh
# Starts the tasks of a step that belong to this pod, side by side, and ends as the worst of them does.
here="${SLURM_NTASKS_PER_NODE:-1}"
all="${SLURM_NTASKS:-1}"
while [ $# -gt 0 ]; do
    case "$1" in
        --ntasks=*) all="${1#*=}" ;;
        --ntasks-per-node=*|--tasks-per-node=*) here="${1#*=}" ;;
        -n|--ntasks) all="$2"; shift ;;
        --ntasks-per-node|--tasks-per-node) here="$2"; shift ;;
        -n[0-9]*) all="${1#-n}" ;;
        --) shift; break ;;
        --*=*) ;;
        --label|--exclusive|--exact|--overlap|--unbuffered|--pty|--quiet|--verbose|--multi-prog|--overcommit) ;;
        --no-kill|--oversubscribe|--preserve-env|--disable-status|--contiguous|--no-container-*|--container-*) ;;
        --*) shift ;;
        -[lOsuQvEXZkWH]) ;;
        -[A-Za-z]) shift ;;
        -*) ;;
        *) break ;;
    esac
    shift
done
if [ $# -eq 0 ]; then
    echo "srun: no command is named" >&2
    exit 1
fi
export SLURM_NTASKS="$all" SLURM_STEP_NUM_TASKS="$all"
first=$(( ${SLURM_NODEID:-0} * here ))
tasks=""
at=0
while [ "$at" -lt "$here" ] && [ $((first + at)) -lt "$all" ]; do
    SLURM_PROCID=$((first + at)) SLURM_LOCALID=$at "$@" &
    tasks="$tasks $!"
    at=$((at + 1))
done
trap 'kill -TERM $tasks 2>/dev/null' TERM INT
code=0
for task in $tasks; do
    wait "$task" || { ended=$?; [ "$ended" -gt "$code" ] && code=$ended; }
done
exit "$code"
"""
