"""ColossalAIJob (read only), in both generations: workers, and one launcher that counts as a member."""

from t9ksched.workloads.fields import Field
from t9ksched.workloads.jobspec import check_pod_names, pod_suffixes, read_replica_types, read_run_mode
from t9ksched.workloads.launcher import LAUNCHER, WORKER, fill_launcher
from t9ksched.workloads.podspec import generated_template, read_template
from t9ksched.workloads.shape import Template


def read_colossalai_job(root: Field) -> list[Template]:
    """Second generation if it has `spec.replicaSpecs`, else the first with `spec.worker` and `spec.launcher`."""
    spec = root["spec"]
    read_run_mode(spec["runMode"])
    if spec["replicaSpecs"].present or not spec["worker"].present:
        specs = fill_launcher(spec["replicaSpecs"], WORKER)
        types = read_replica_types(specs, objects=True, allowed=(LAUNCHER, WORKER))
        check_pod_names(root, pod_suffixes(types))
        return [kind.template for kind in types]
    worker, launcher = spec["worker"], spec["launcher"]
    count = worker["replicas"].whole(1)
    check_pod_names(root, ["-launcher-0", f"-worker-{max(count, 1) - 1}"])
    return [
        generated_template(launcher, "launcher", launcher["resources"], "launcher"),
        read_template(worker["template"], "worker", count),
    ]
