#!/bin/sh
# Starts the tasks of a step that belong to this pod, side by side, passes signals on to them, and ends once all have
# ended, as the worst of them does. What it does not do as Slurm does, it says. Names of variables begin with _, for a
# script may have exported others.
. "${0%/*}/processes"

# Letter, name, whether a value follows (v: always, p: only behind =, f: never), and what becomes of it: + is done, -
# needs nothing done, and for the others `why` says why they are not.
_OPTIONS="
A:account:v:- :acctg-freq:v:u :bb:v:u :bbf:v:u B:extra-node-info:v:u b:begin:v:u :bcast:p:u :bcast-exclude:v:u
c:cpus-per-task:v:+ :cluster-constraint:v:u M:clusters:v:u :comment:v:- :compress:p:u :consolidate-segments:f:-
C:constraint:v:n :container:v:i :container-env:v:i :container-entrypoint:f:i :container-id:v:i :container-image:v:i
:container-mount-home:f:i :container-mounts:v:i :container-name:v:i :container-readonly:f:i :container-remap-root:f:i
:container-save:v:i :container-workdir:v:i :container-writable:f:i :contiguous:f:- S:core-spec:v:u
:cores-per-socket:v:u :cpu-bind:v:u :cpu-freq:v:u :cpus-per-gpu:v:r D:chdir:v:+ :deadline:v:u :delay-boot:v:u
d:dependency:v:u X:disable-status:f:- m:distribution:v:u e:error:v:+ :epilog:v:u :exact:f:- x:exclude:v:n
:exclusive:p:s :export:v:+ :external:f:- :extra:v:- :gid:v:u :gpu-bind:v:g :gpu-freq:v:u G:gpus:v:r :gpus-per-node:v:r
:gpus-per-socket:v:r :gpus-per-task:v:+ :gres:v:r :gres-flags:v:u h:help:f:h :het-group:v:u :hint:v:u H:hold:f:u
I:immediate:p:- i:input:v:+ :interactive:f:- J:job-name:v:- :jobid:v:- K:kill-on-bad-exit:p:+ l:label:f:l
L:licenses:v:u :mail-type:v:u :mail-user:v:u :mcs-label:v:u :mem:v:r :mem-bind:v:u :mem-per-cpu:v:r :mem-per-gpu:v:r
:mincpus:v:r :mpi:v:m :msg-timeout:v:- :multi-prog:f:+ :network:v:u :nice:p:- k:no-kill:p:-
:no-container-entrypoint:f:i :no-container-mount-home:f:i :no-container-remap-root:f:i Z:no-allocate:f:u
F:nodefile:v:n w:nodelist:v:n N:nodes:v:+ n:ntasks:v:+ :ntasks-per-core:v:u :ntasks-per-gpu:v:u :ntasks-per-node:v:+
:ntasks-per-socket:v:u :oom-kill-step:p:- :open-mode:v:+ o:output:v:+ O:overcommit:f:- :overlap:f:-
s:oversubscribe:f:- p:partition:v:- :power:v:u :prefer:v:u E:preserve-env:f:- :preserve-slurm-env:f:- :priority:v:u
:profile:v:u :prolog:v:u :propagate:p:u :pty:p:t q:qos:v:- Q:quiet:f:+ :quit-on-interrupt:f:- :reboot:f:u
r:relative:v:+ :reservation:v:- :resv-ports:p:u :segment:v:u :send-libs:p:u :signal:v:u :slurmd-debug:v:-
:sockets-per-node:v:u :spread-job:f:- :spread-segments:f:- :stepmgr:f:- :switches:v:u :task-epilog:v:u
:task-prolog:v:u :tasks-per-node:v:+ :test-only:f:f :thread-spec:v:u T:threads:v:- :threads-per-core:v:u t:time:v:x
:time-min:v:- :tmp:v:u :treewidth:v:- :tres-bind:v:u :tres-per-task:v:u :uid:v:u u:unbuffered:f:- :usage:f:h
:use-min-nodes:f:- v:verbose:f:- V:version:f:h W:wait:v:u :wckey:v:- :x11:p:u
"

fail() {
    echo "srun: $1" >&2
    exit 1
}

# search LETTER NAME: sets _name, _kind and _becomes of the option with that letter, or that name, which may be cut short.
search() {
    _name="" _alike=0
    for _entry in $_OPTIONS; do
        _letter="${_entry%%:*}" _entry="${_entry#*:}"
        _this="${_entry%%:*}" _entry="${_entry#*:}"
        if [ -n "$1" ]; then
            [ "$_letter" = "$1" ] || continue
        else
            case "$_this" in "$2"*) ;; *) continue ;; esac
        fi
        _name="$_this" _kind="${_entry%%:*}" _becomes="${_entry#*:}" _alike=$((_alike + 1))
        if [ -n "$1" ] || [ "$_this" = "$2" ]; then
            _alike=1
            break
        fi
    done
    [ "$_alike" -eq 1 ] || fail "${1:+-}${1:-"--$2"} is no option of srun"
}

why() {
    case "$1" in
        f) echo "the step runs; t9ksched submit --dry-run tells when a job would start" ;;
        g) echo "tasks see all cards of their pod; with --gpus-per-task each sees its own" ;;
        i) echo "the image, its mounts and its directory are those of the job (--image, --mount)" ;;
        l) echo "t9ksched logs --all writes the rank of the pod in front of each line" ;;
        m) echo "processes of MPI do not find each other by it: such a job is an MPIJob" ;;
        n) echo "a step cannot choose nodes, only the number of pods by --nodes and --relative" ;;
        r) echo "a step has all cores, memory and cards of its pods" ;;
        s) echo "a step does not wait until others leave it room: all run at once" ;;
        t) echo "there is no terminal" ;;
        x) echo "a step has the time limit of the job" ;;
        *) echo "it has no counterpart" ;;
    esac
}

_all="" _each="" _nodes="" _relative=0 _folder="" _out="" _err="" _in="" _mode=""
_export="" _multi="" _strict="" _quiet="" _unmet=""
_cards="${SLURM_GPUS_PER_TASK:-}"

# take NAME VALUE: what an option says.
take() {
    case "$1" in
        ntasks) _all="$2" ;;
        ntasks-per-node | tasks-per-node) _each="$2" ;;
        nodes) _nodes="${2%%-*}" ;;
        relative) _relative="$2" ;;
        gpus-per-task) _cards="${2##*:}" ;;
        cpus-per-task) export SLURM_CPUS_PER_TASK="$2" ;;
        chdir) _folder="$2" ;;
        output) _out="$2" ;;
        error) _err="$2" ;;
        input) _in="$2" ;;
        open-mode) _mode="$2" ;;
        export) _export="$2" ;;
        multi-prog) _multi=yes ;;
        kill-on-bad-exit) [ "${2:-1}" = 0 ] || _strict=yes ;;
        quiet) _quiet=yes ;;
    esac
}

# option WRITTEN VALUE: one that `search` found.
option() {
    case "$_becomes$2" in
        [+-]*) take "$_name" "$2" ;;
        h*)
            echo "srun of t9ksched: it starts the tasks of a step that belong to this pod"
            exit 0
            ;;
        mnone) ;;
        *) _unmet="$_unmet$1 $_becomes
" ;;
    esac
}

while [ $# -gt 0 ]; do
    case "$1" in
        --)
            shift
            break
            ;;
        --?*)
            _written="$1" _word="${1#--}"
            search "" "${_word%%=*}"
            case "$_kind$_word" in
                f*=*) fail "--$_name takes no value" ;;
                *=*) _value="${_word#*=}" ;;
                v*)
                    [ $# -gt 1 ] || fail "--$_name has no value"
                    shift
                    _value="$1" _written="$_written $1"
                    ;;
                *) _value="" ;;
            esac
            option "$_written" "$_value"
            ;;
        -?*)
            _word="${1#-}"
            while [ -n "$_word" ]; do
                _first="${_word%"${_word#?}"}" _word="${_word#?}"
                search "$_first" ""
                _value=""
                if [ "$_kind" != f ]; then
                    _value="${_word#=}" _word=""
                    if [ "$_kind" = v ] && [ -z "$_value" ]; then
                        [ $# -gt 1 ] || fail "-$_first has no value"
                        shift
                        _value="$1"
                    fi
                fi
                option "-$_first${_value:+ $_value}" "$_value"
            done
            ;;
        *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || fail "no command is named"
if [ -z "$_quiet" ]; then
    echo "$_unmet" | while read -r _line; do
        [ -z "$_line" ] || echo "srun: ${_line% *} is not done: $(why "${_line##* }")" >&2
    done
fi

# -- which tasks -------------------------------------------------------------------------------------------------------

number() {
    case "$2" in "" | *[!0-9]*) fail "$1: '$2' is no number" ;; esac
}
[ -z "$_all" ] || number --ntasks "$_all"
[ -z "$_each" ] || number --ntasks-per-node "$_each"
[ -z "$_nodes" ] || number --nodes "$_nodes"
[ -z "$_cards" ] || number --gpus-per-task "$_cards"
number --relative "$_relative"
_pods="${SLURM_NNODES:-1}"
_left=$((_pods - _relative))
[ "$_left" -gt 0 ] || fail "--relative: $_relative is no pod of the job, which has $_pods, from 0 on"
[ "${_nodes:-0}" -le "$_left" ] || fail "--nodes: $_nodes pods are asked for, and there are $_left"
if [ -z "$_all$_each$_nodes" ] && [ "$_relative" -eq 0 ]; then
    _all="${SLURM_NTASKS:-1}"
fi
_nodes="${_nodes:-$_left}"
_all="${_all:-$((${_each:-${SLURM_NTASKS_PER_NODE:-1}} * _nodes))}"
[ "$_nodes" -le "$_all" ] || _nodes="$_all"
_place=$((${SLURM_NODEID:-0} - _relative))
# As many in each pod as in any other, and one more in the first ones.
_count=$((_all / _nodes)) _more=$((_all % _nodes))
_first=$((_place * _count + (_place < _more ? _place : _more))) _count=$((_count + (_place < _more ? 1 : 0)))
if [ -n "$_each" ]; then
    _first=$((_place * _each)) _count=$((_all - _place * _each < _each ? _all - _place * _each : _each))
fi
[ "$_place" -ge 0 ] && [ "$_place" -lt "$_nodes" ] && [ "$_count" -gt 0 ] || exit 0
export SLURM_NTASKS="$_all" SLURM_NPROCS="$_all" SLURM_STEP_NUM_TASKS="$_all" SLURM_STEP_NUM_NODES="$_nodes"
export SLURM_NNODES="$_nodes" SLURM_NODEID="$_place"

# -- where, and with what ----------------------------------------------------------------------------------------------

if [ -n "$_folder" ]; then
    cd "$_folder" || fail "--chdir: $_folder cannot be entered"
fi
# kept NAME: whether a variable stays though it is not exported: what tells where the task is.
kept() {
    case "$1" in
        SLURM_* | SLURMD_* | T9K_* | MASTER_* | NVIDIA_* | CUDA_VISIBLE_DEVICES) ;;
        PATH | HOME | PWD | HOSTNAME | LD_LIBRARY_PATH) ;;
        *) case ",$_export," in *,"$1",*) ;; *) false ;; esac ;;
    esac
}
case ",$_export," in
    ,, | *,ALL,*) ;;
    *)
        for _one in $(env | while IFS= read -r _line; do
            case "$_line" in [A-Za-z_]*=*) echo "${_line%%=*}" ;; esac
        done); do
            case "$_one" in *[!A-Za-z0-9_]* | _) continue ;; esac
            kept "$_one" || unset "$_one"
        done
        ;;
esac
_rest="$_export,"
while [ -n "$_rest" ]; do
    _one="${_rest%%,*}" _rest="${_rest#*,}"
    case "${_one%%=*}" in
        "" | [0-9]* | *[!A-Za-z0-9_]*) [ -z "$_one" ] || fail "--export: '$_one' is no variable" ;;
        *) case "$_one" in *=*) export "${_one?}" ;; esac ;;
    esac
done

# named PATTERN: sets _file to it, with %t and the like filled in for the task.
named() {
    _rest="$1" _file=""
    while :; do
        case "$_rest" in *%*) ;; *) break ;; esac
        _file="$_file${_rest%%\%*}" _rest="${_rest#*%}"
        _width="${_rest%%[!0-9]*}"
        _rest="${_rest#"$_width"}"
        case "$_rest" in
            t*) _this="$_id" ;;
            n*) _this="$_place" ;;
            s*) _this=0 ;;
            j* | A*) _this="${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-}}" ;;
            J*) _this="${SLURM_JOB_ID:-}.0" ;;
            x*) _this="${SLURM_JOB_NAME:-}" ;;
            a*) _this="${SLURM_ARRAY_TASK_ID:-}" ;;
            N*) _this="${HOSTNAME:-}" ;;
            u*) _this="${USER:-$(id -un)}" ;;
            %*) _this="%" ;;
            *)
                _file="$_file%$_width"
                continue
                ;;
        esac
        case "$_this" in
            *[!0-9]*) ;;
            *) while [ "${#_this}" -lt "${_width:-0}" ]; do _this="0$_this"; done ;;
        esac
        _file="$_file$_this" _rest="${_rest#?}"
    done
    _file="$_file$_rest"
}

_written="
"
# opened OPTION PATTERN: sets _file to where output of the task goes, and empties it; empty for the log.
opened() {
    case "$2" in
        "" | all) _file="" ;;
        none) _file=/dev/null ;;
        *[!0-9]*)
            named "$2"
            case "$_written" in *"
$_file
"*) return ;; esac
            _written="$_written$_file
"
            # One that all pods write to is emptied by the first of them.
            case "$_mode:$_place:$2" in
                a*) ;;
                *:0:* | *%[tnN]* | *%[0-9][tnN]*)
                    { true >"$_file"; } 2>/dev/null || fail "$1: $_file cannot be written"
                    ;;
            esac
            ;;
        "$_id") _file="" ;;
        *) _file=/dev/null ;;
    esac
}

# program FILE: sets _line to the command of the task.
program() {
    [ -r "$1" ] || fail "--multi-prog: $1 cannot be read"
    while read -r _ranks _line || [ -n "$_ranks" ]; do
        case "$_ranks" in "" | \#*) continue ;; esac
        _left="$_ranks,"
        while [ -n "$_left" ]; do
            _one="${_left%%,*}" _left="${_left#*,}"
            _low="${_one%%-*}" _high="${_one##*-}"
            [ "$_one" != "*" ] || _low=0 _high="$_id"
            case "$_low$_high" in "" | *[!0-9]*) fail "--multi-prog: '$_ranks' in $1 names no tasks" ;; esac
            if [ "$_low" -le "$_id" ] && [ "$_id" -le "$_high" ]; then
                _line="$_line " _filled=""
                while :; do
                    case "$_line" in *%[to]*) ;; *) break ;; esac
                    _filled="$_filled${_line%%\%[to]*}" _line="${_line#"${_line%%\%[to]*}"}"
                    case "$_line" in %t*) _filled="$_filled$_id" ;; *) _filled="$_filled$((_id - _low))" ;; esac
                    _line="${_line#??}"
                done
                _line="$_filled$_line"
                return
            fi
        done
    done <"$1"
    fail "--multi-prog: no line of $1 is for task $_id"
}

# card PLACE: leaves the task in that place of the pod its own cards.
card() {
    _list="${CUDA_VISIBLE_DEVICES-none}"
    if [ "$_list" = none ]; then
        _list="" _one=0
        while [ "$_one" -lt "${SLURM_GPUS_ON_NODE:-0}" ]; do
            _list="$_list${_list:+,}$_one" _one=$((_one + 1))
        done
    fi
    _own="" _one=0 _rest="$_list,"
    while [ -n "$_list" ] && [ -n "$_rest" ]; do
        if [ "$_one" -ge $(($1 * _cards)) ] && [ "$_one" -lt $((($1 + 1) * _cards)) ]; then
            _own="$_own${_own:+,}${_rest%%,*}"
        fi
        _rest="${_rest#*,}" _one=$((_one + 1))
    done
    export CUDA_VISIBLE_DEVICES="$_own"
}

# -- tasks -------------------------------------------------------------------------------------------------------------

_tasks="" _told=""
pass() {
    _woken=yes _told="$1"
    look
    send "$1" "${_tree:-$_tasks}"
}
for _name in HUP INT QUIT TERM USR1 USR2; do
    trap "pass $_name" "$_name"
done

{ true <&0; } 2>/dev/null || exec </dev/null
exec 3<&0
_at=0
while [ "$_at" -lt "$_count" ] && [ -z "$_told" ]; do
    _id=$((_first + _at))
    [ -z "$_multi" ] || program "$1"
    opened --output "$_out"
    _stdout="$_file"
    opened --error "${_err:-$_out}"
    _stderr="$_file"
    named "$_in"
    (
        export SLURM_PROCID="$_id" SLURM_LOCALID="$_at"
        [ -z "$_cards" ] || [ "$_cards" -eq 0 ] || card "$_at"
        case "$_in" in
            "" | all)
                # Each task has all of a file, and the first what comes by a pipe.
                if [ -f /proc/self/fd/3 ]; then exec </proc/self/fd/3; elif [ "$_at" -eq 0 ]; then exec <&3; fi
                ;;
            none) ;;
            *[!0-9]*) exec <"$_file" ;;
            "$_id") exec <&3 ;;
        esac
        [ -z "$_stdout" ] || exec >>"$_stdout"
        [ -z "$_stderr" ] || exec 2>>"$_stderr"
        if [ -n "$_multi" ]; then
            set -f
            eval "set -- $_line"
        fi
        exec "$@" 3<&-
    ) &
    _tasks="$_tasks $!" _at=$((_at + 1))
done
exec 3<&- </dev/null

_code=0
# settle TASK: waits for it.
settle() {
    await "$1"
    [ "$_ended" -le "$_code" ] || _code="$_ended"
}
_left="$_tasks"
while [ -n "$_strict" ] && [ -n "$_left" ]; do
    look
    _now="$_left" _left=""
    for _task in $_now; do
        case "$_tree " in
            *" $_task "*) _left="$_left $_task" ;;
            *) settle "$_task" ;;
        esac
    done
    if [ "$_code" -ne 0 ]; then
        [ -n "$_told" ] || pass TERM
        _strict=""
    elif [ -n "$_left" ]; then
        nap || _strict=""
    fi
done
for _task in $_left; do
    settle "$_task"
done
exit "$_code"
