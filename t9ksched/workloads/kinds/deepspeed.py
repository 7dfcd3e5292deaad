"""DeepSpeedJob (read only): workers that run sshd, started from worker 0; may be elastic."""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names, read_elastic, read_restart_word, read_run_mode, read_run_policy
from t9ksched.workloads.podspec import read_template
from t9ksched.workloads.shape import Template

_ROLE = "worker"


def read_deepspeed_job(root: Field) -> list[Template]:
    """The workers; an elastic range overrides `worker.replicas`. `slotPerWorker` is the older spelling."""
    spec = root["spec"]
    read_run_policy(spec["runPolicy"])
    read_run_mode(spec["runMode"])
    elastic = read_elastic(spec["elastic"])
    config = spec["config"]
    slots = config["slotsPerWorker"] if config["slotsPerWorker"].present else config["slotPerWorker"]
    slots.whole(1, low=1)
    runs = [key for key, field in config["run"].entries() if field.present]
    if len(runs) > 1:
        config["run"].fault(f"names {' and '.join(sorted(runs))}: give exactly one of python, module and exec")
    worker = spec["worker"]
    read_restart_word(worker["restartPolicy"])
    count = minimum = worker["replicas"].whole(1)
    if elastic is not None:
        count, minimum = elastic.expected, elastic.minimum
    check_pod_names(root, [f"-{_ROLE}-{max(count, 1) - 1}"])
    return [read_template(worker["template"], _ROLE, count, minimum)]
