"""The page `docs/reference/metrics.md`: `python -m t9ksched.cli.metricsreference`. `make reference` writes it."""

import sys
from typing import Final

from t9ksched.api.meters import FAMILIES as REST
from t9ksched.controller.meters import FAMILIES as CONTROLLERS
from t9ksched.scheduler.report.families import FAMILIES
from t9ksched.serving.exposition import table

HEAD: Final = """# Metrics reference

Written by `make reference` from the table the page itself is made from. Each scheduler serves `/metrics` on the port
of its probes (`T9KSCHED_HEALTH_PORT`), as deployed 8080, which the Service `t9k-scheduler` in `t9k-system` names; no
token is needed. The one that leads has all families, one that waits to lead `t9ksched_build_info` and
`t9ksched_leading` alone. The page is in the text format of Prometheus or, if the scraper asks for it, OpenMetrics. REST
serves the leader's page at its own `/metrics` to those who have a token, and without one on the port of its probes, if
it has one, with families of [its own process](#rest); there these alone while the leader or the database does not
answer.

Amounts are in base units. The label `unit` is `core` for cpu, `byte` for memory, `card` for `cards` (physical cards,
parts of them included, to thousandths, where the quota names them), and `integer` for every other
resource, such as cards; amounts of `ephemeral-storage` and `hugepages-…` are whole numbers of bytes. Limits on
attached volumes are no resources and are left out, and so is the number of pods unless a quota names it.

Counters and histograms begin at 0 when a process begins to lead. No family has a label with the name of a user, a job
or a pod. The column *at most* bounds the series of each family (of a histogram the sets of label values): what is
beyond is left out of a gauge, or counted under `(other)`, and `t9ksched_metric_samples_cut_total` says so. *nodes*: as
many as the cluster has nodes, times the resources that are asked for there. A page costs the nodes that changed since
the last one; it walks over no pods of others, and other work of the process goes on while it is written.

There are no families for guaranteed and lent quota, because queues neither guarantee nor lend: their share is what they
hold of their quota (`t9ksched_queue_share_ratio`). Plans that were kept are
`t9ksched_forecast_started_by_latest_total{basis="plan"}`.

## The leading scheduler

"""
REST_HEAD: Final = """
## REST

Each process of REST counts these of itself. Its page has those of the leader too: a scrape of all processes keeps
`t9ksched_api_…` of these alone, as `deploy/monitoring` does.

"""
CONTROLLERS_HEAD: Final = """
## The leading controllers

Each process of the controllers serves `/metrics` on the port of its probes, as deployed 8091, without a token. The one
that leads has all of these, one that waits `t9ksched_controller_leading` alone. `t9ksched up`, one process, has
them on the page of REST, which then has every family there is.

"""


def reference() -> str:
    """The whole page."""
    return HEAD + table(FAMILIES) + REST_HEAD + table(REST) + CONTROLLERS_HEAD + table(CONTROLLERS)


if __name__ == "__main__":
    sys.stdout.write(reference())
