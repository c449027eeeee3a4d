"""docs/metrics.md, written from the table of metrics."""

from __future__ import annotations

from gpugauge.export.metric import PREFIX, Metric
from gpugauge.export.metrics import METRICS
from gpugauge.export.samples import BUCKET_BOUNDS

HEAD = """\
# Metrics

Written from `src/gpugauge/export/metrics/` by `make generate`.

All names begin with `gpugauge_` and end in a base unit; counters end in `_total`. A value that
is not known is absent, never 0. Exact counters and estimates are never one series.

How sure: **exact** counts every call that was seen; a **lower bound** never exceeds the truth;
an **estimate** can err both ways, and its paragraph says when.

## Labels

- `namespace`, `pod`, `container`, `workload`: whose it is, in the names that kube-state-metrics
  uses. Empty for processes of the host. `workload` is the Deployment, Job and so on of the pod.
- `scope`: `pod`, `host`, `container` (not, or not yet, resolved to a pod), `unknown`, or `other`:
  the sum of all owners beyond the node's budget of series.
- `gpu_uuid`: the UUID of the GPU or MIG instance, `unknown` where it is not known.
- `gpu`, `model`: NVML's index and name of the device.
- `simulated="true"` is on every series while the devices are the simulated driver's.

Prometheus adds `namespace`, `pod` and `container` of the agent itself, and renames the metric's own
to `exported_namespace` and so on, unless the scrape has `honorLabels: true`. Where that cannot be
set (`overrideHonorLabels`), process what was scraped: `metricRelabelings` that copy `exported_pod`
to `pod`, and the same for the other two. Without either, processes of the host carry the agent's
own pod, because an empty label is no label: `scope="host"` tells them apart.

Process ids, pod UIDs and function names are no labels: they would make a new series a day or a
minute. The API has them.

Counters do not go back when a process ends, or a pod is made anew under its old name. The series of
a pod that ended are exported for `series.retire_seconds` more.
"""


def metrics_document() -> str:
    """Return docs/metrics.md."""
    bounds = ", ".join(f"{bound:.3g}" for bound in BUCKET_BOUNDS)
    parts = [HEAD, f"Bounds of histograms, in seconds: {bounds}.\n", "## All metrics\n"]
    parts += [
        "| metric | type | how sure |\n|---|---|---|",
        *(f"| [`{m.full_name}`](#{m.full_name}) | {m.kind} | {m.certainty} |" for m in METRICS),
        "",
    ]
    parts += [_section(metric) for metric in METRICS]
    return "\n".join(parts)


def _section(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    option = f" Exported only with `series.{metric.option}`." if metric.option else ""
    return (
        f"## {PREFIX}{metric.name}\n\n"
        f"{metric.kind}, {metric.certainty}, since {metric.since}. Labels: {labels}.\n\n"
        f"{metric.help}{option} {metric.meaning}\n\n"
        f"When it misleads: {metric.wrong_when}\n"
    )
