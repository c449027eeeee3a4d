"""Whose a number is stays right whether Prometheus honours our labels or puts its own over them.

The rule is Prometheus's own (scrape configuration, honor_labels): labels of the target win, and
the sample's become `exported_NAME`, unless honor_labels is set; a label with an empty value is
no label, except that with honor_labels it keeps the target's away.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpugauge.diagnosis.exported import METRICS, snapshots_of
from gpugauge.export.exposition import Exposition
from gpugauge.model.workload import Owner, Scope
from gpugauge.settings import SeriesSettings
from tests.support.snapshots import GPU_B, busy_snapshot, operations, owner, series

TARGET = {
    "namespace": "monitoring",
    "pod": "gpugauge-x7k2p",
    "container": "agent",
    "instance": "10.0.0.7:9836",
    "job": "gpugauge",
}


def stored(sample: Mapping[str, str], *, honor: bool) -> dict[str, str]:
    """Return the labels under which Prometheus keeps a sample of the agent's."""
    labels = dict(sample)
    for name, value in TARGET.items():
        if honor:
            labels.setdefault(name, value)
            continue
        if labels.get(name):
            labels[f"exported_{name}"] = labels[name]
        labels[name] = value
    return {name: value for name, value in labels.items() if value}


def scraped(*, honor: bool):
    """Return what is stored of a node with pods, a container without one, and a host process."""
    loose = Owner(Scope.CONTAINER, container="0123456789ab", container_id="0123456789ab")
    whole = busy_snapshot()
    extra = series(loose, GPU_B, operations=operations(LAUNCH=7))
    exposition = Exposition(SeriesSettings(per_owner=100))
    exposition.publish(busy_snapshot(series=(*whole.series, extra)))
    table = {}
    for family in text_string_to_metric_families(exposition.text().decode()):
        for sample in family.samples:
            labels = stored(sample.labels, honor=honor)
            name = sample.name.removeprefix("gpugauge_")
            table.setdefault(name, []).append((labels, [(15.0, sample.value)]))
    return table


def whose(labels: Mapping[str, str], *, honor: bool) -> tuple[str, str, str]:
    prefix = "" if honor else "exported_"
    return tuple(labels.get(prefix + name, "") for name in ("namespace", "pod", "container"))


@pytest.mark.parametrize("honor", [True, False])
def test_the_labels_of_a_pod_are_found(honor: bool) -> None:
    listed = scraped(honor=honor)["launches_total"]
    pods = {whose(labels, honor=honor) for labels, _ in listed if labels["scope"] == "pod"}
    assert pods == {("ml", "train-0", "main"), ("web", "serve-1", "main")}
    for labels, _ in listed:
        # These have no other meaning for Prometheus: they are never renamed.
        assert {"gpu_uuid", "scope"} <= labels.keys()
        assert (labels["pod"] == TARGET["pod"] if "pod" in labels else True) or honor


@pytest.mark.parametrize("honor", [True, False])
def test_the_diagnosis_of_a_cluster_gives_each_number_to_its_owner(honor: bool) -> None:
    table = {name: listed for name, listed in scraped(honor=honor).items() if name in METRICS}
    (snapshot,) = next(iter(snapshots_of(table, 15).values()))
    train, serve = owner("train-0"), owner("serve-1", namespace="web")
    expected = {
        (one.scope, one.namespace, one.pod, one.container, one.workload)
        for one in (
            train,
            serve,
            Owner(Scope.HOST),
            Owner(Scope.CONTAINER, container="0123456789ab"),
        )
    }
    assert {
        (o.scope, o.namespace, o.pod, o.container, o.workload)
        for o in (one.owner for one in snapshot.series)
    } == expected
