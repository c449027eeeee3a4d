"""The metric table and its exposition: names, golden text, hostile labels, budgets, never back."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from prometheus_client import Metric as MetricFamily
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from gpugauge.export.exposition import Exposition
from gpugauge.export.family import FamilyWriter
from gpugauge.export.metric import DEVICE, OWNER, WORKLOAD, Kind, Metric
from gpugauge.export.metrics import METRICS
from gpugauge.export.samples import (
    BUCKET_BOUNDS,
    LOST_EVENTS,
    LOST_UPDATES,
    NOT_LOST,
    UNTRACKED_ALLOCATIONS,
    operation_name,
)
from gpugauge.export.view import View
from gpugauge.model.abi import Cause, Family, Loss, Slot
from gpugauge.model.device import Device
from gpugauge.model.process import Memory, OpenCall
from gpugauge.model.snapshot import DeviceUse, Snapshot
from gpugauge.model.workload import HOST, NOBODY, Owner, Scope
from gpugauge.settings import SeriesSettings
from tests.support.golden import GOLDEN, golden_text
from tests.support.random_snapshots import snapshots
from tests.support.snapshots import (
    GPU_A,
    GPU_B,
    SECOND,
    busy_series,
    busy_snapshot,
    device,
    health,
    histogram,
    next_tick,
    operations,
    owner,
    series,
    snapshot,
    times,
)

PROMTOOL = Path(__file__).parents[2] / ".tools" / "bin" / "promtool"
NO_SHRINKING = (Phase.explicit, Phase.generate)  # of a whole snapshot it takes minutes
ROOMY = SeriesSettings(per_owner=1000, launch_threads=True)
BASE_UNITS = ("_seconds", "_bytes", "_ratio", "_cores", "_info")
COUNTED_THINGS = {
    "contexts", "processes", "pods", "gpus", "finding", "gap", "up", "ready", "libraries", "probes",
    "owners", "dropped", "hour", "off", "score",
}  # fmt: skip


def samples(of: Snapshot, settings: SeriesSettings = ROOMY) -> list[Sample]:
    exposition = Exposition(settings)
    exposition.publish(of)
    return parsed(exposition)


def parsed(exposition: Exposition) -> list[Sample]:
    families = text_string_to_metric_families(exposition.text().decode())
    return [sample for family in families for sample in family.samples]


def values(of: Iterable[Sample], name: str, **labels: str) -> list[float]:
    return [
        sample.value
        for sample in of
        if sample.name == f"gpugauge_{name}" and labels.items() <= sample.labels.items()
    ]


# ---- the table ---------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_and_words(metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z]", metric.name)
    bare = metric.name.removesuffix("_total")
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    if metric.kind is not Kind.COUNTER:
        assert bare.endswith(BASE_UNITS) or bare.split("_")[-1] in COUNTED_THINGS
    assert not re.search(r"milli|micro|nano|percent|_ms$|_ns$|_kib|_mib", metric.name)
    assert metric.help.endswith(".")
    assert metric.meaning.endswith(".")
    assert metric.wrong_when.endswith(".")


def test_names_are_unique() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_labels_are_those_of_the_contract() -> None:
    allowed = {"pid", "pod_uid", "uid", "function", "symbol", "comm", "container_id"}
    for metric in METRICS:
        assert not allowed & set(metric.labels)
        if metric.name.startswith("agent_"):
            assert not set(metric.labels) & {*OWNER, *DEVICE}
        else:
            starts = [metric.labels[: len(group)] for group in (WORKLOAD, OWNER, DEVICE)]
            assert WORKLOAD in starts or OWNER in starts or DEVICE in starts


def test_every_family_of_the_design_is_there() -> None:
    names = {metric.name for metric in METRICS}
    wanted = {
        "launches_total", "graph_launches_total", "graph_kernels_total",
        "graph_launches_unknown_total", "process_seconds_total", "blocked_seconds_total",
        "blocked_wall_seconds_total", "known_idle_seconds_total", "blocked_duration_seconds",
        "inflight_blocked_seconds", "launch_issue_seconds", "sync_calls_total", "poll_calls_total",
        "copy_bytes_total", "copies_total", "memory_requested_bytes", "memory_held_bytes",
        "allocations_total", "frees_total", "errors_total", "contexts", "device_processes",
        "device_pods", "entitled_gpus", "entitlement_gap", "cpu_throttled_seconds_total",
        "cpu_quota_cores",
        "cpu_seconds_total", "pressure_seconds_total", "finding", "device_info", "workload_info",
        "agent_up", "agent_probes", "agent_duplicate_hits_total", "agent_abandoned_calls_total",
        "agent_incomplete_processes", "agent_bpf_memory_bytes", "agent_history_bytes",
        "agent_lost_updates_total", "agent_untracked_allocations_total", "agent_unprobed_processes",
        "agent_probe_hits_total", "agent_probe_cost_seconds", "agent_tick_seconds",
    }  # fmt: skip
    assert wanted <= names


def test_every_loss_is_in_one_metric() -> None:
    parts = (*LOST_UPDATES, *LOST_EVENTS, *UNTRACKED_ALLOCATIONS, *NOT_LOST)
    assert sorted(parts) == sorted(Loss)


def test_every_slot_has_an_operation() -> None:
    assert {operation_name(slot) for slot in Slot} == {
        "launch", "graph_launch", "synchronize", "poll", "copy", "set", "allocate", "free",
        "context", "submit_other", "captured", "other",
    }  # fmt: skip


# ---- the text ----------------------------------------------------------------


def test_golden() -> None:
    assert golden_text() == GOLDEN.read_text(), "if this is meant: make generate"


def test_promtool_finds_nothing_to_say() -> None:
    assert PROMTOOL.exists(), "make tools"
    for text in (golden_text(), simulated_text()):
        done = subprocess.run(
            [PROMTOOL, "check", "metrics"], input=text.encode(), capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def simulated_text() -> str:
    exposition = Exposition(ROOMY)
    exposition.publish(busy_snapshot(simulated=True))
    return exposition.text().decode()


def test_golden_has_every_family_of_the_table() -> None:
    shown = set(re.findall(r"^# TYPE gpugauge_(\w+)", GOLDEN.read_text(), re.M))
    assert shown | {"finding", "agent_unprobed_processes", "agent_unresolved_processes"} == {
        metric.name for metric in METRICS
    }


def test_simulated_is_on_every_sample_or_on_none() -> None:
    assert all(s.labels.get("simulated") == "true" for s in samples(busy_snapshot(simulated=True)))
    assert not any("simulated" in s.labels for s in samples(busy_snapshot()))


@settings(max_examples=40, phases=NO_SHRINKING)
@given(snapshots())
def test_own_text_is_the_library_s_text(random: Snapshot) -> None:
    exposition = Exposition(ROOMY)
    exposition.publish(random)
    text = exposition.text()
    assert text == generate_latest(Parsed(text))


class Parsed(Collector):
    """An exposition as the library reads it, for its own writer to write."""

    def __init__(self, text: bytes) -> None:
        self._text = text.decode()

    def collect(self) -> Iterable[MetricFamily]:
        return text_string_to_metric_families(self._text)


@settings(max_examples=40, phases=NO_SHRINKING)
@given(snapshots())
def test_no_series_twice_whatever_the_snapshot(random: Snapshot) -> None:
    seen = [(s.name, tuple(sorted(s.labels.items()))) for s in samples(random)]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    "name",
    [
        'a"b', "a\\b", "a\nb", "a\x1b[31mred", "\u202eevil", "\x00", "{}", "\ud800",
        'x"} 1\ngpugauge_agent_up 0', "x" * 5000, "ö漢字", "\u2028", "\x7f\x9b",
    ],
)  # fmt: skip
def test_hostile_names_stay_inside_their_label(name: str) -> None:
    hostile = Owner(Scope.POD, name, name, name, name, workload_kind=name)
    made = samples(
        snapshot(
            series=(series(hostile, name, operations=operations(LAUNCH=23)),),
            times=(times(hostile),),
            devices=(device(name, model=name, pci_bus_id=name),),
            device_use=(
                DeviceUse(
                    gpu_uuid=name,
                    processes_with_context=1,
                    processes_active=1,
                    processes_claimed=0,
                    pods=1,
                ),
            ),
            agent=health(unprobed_processes={name: 5}, attach_mode=name),
            node=name,
            driver_version=name,
        )
    )
    assert values(made, "launches_total") == [23]
    assert values(made, "agent_up") == [1]
    for sample in made:
        for value in sample.labels.values():
            assert len(value) <= 128
            assert value.isprintable()


# ---- values ------------------------------------------------------------------


def test_exact_values_of_a_workload() -> None:
    made = samples(busy_snapshot())
    mine = {"namespace": "ml", "pod": "train-0", "container": "main", "workload": "train"}
    mine |= {"gpu_uuid": GPU_A, "scope": "pod"}
    assert values(made, "launches_total", **mine) == [101]
    assert values(made, "graph_launches_total", **mine) == [102]
    assert values(made, "poll_calls_total", ready="true", **mine) == [104]
    assert values(made, "poll_calls_total", ready="false", **mine) == [105]
    assert values(made, "copy_bytes_total", direction="htod", **mine) == [4099 + Slot.COPY_HTOD]
    assert values(made, "blocked_seconds_total", cause="copy", **mine) == [0.001000004]
    assert values(made, "inflight_blocked_seconds", cause="synchronize", **mine) == [79]
    assert values(made, "launch_issue_seconds", **mine) == [4.1e-6]
    assert values(made, "known_idle_seconds_total", **mine) == [61]
    assert values(made, "memory_requested_bytes", family="device", **mine) == [83_000_003]
    assert values(made, "memory_held_bytes", **mine) == [536_870_923]
    assert values(made, "errors_total", op="allocate", code="2", **mine) == [1]
    assert values(made, "errors_total", op="launch", code="other", **mine) == [3]
    assert values(made, "entitled_gpus", pod="train-0", resource="nvidia.com/gpu") == [1]
    gap = {"pod": "serve-1", "gpu_uuid": GPU_A, "kind": "not_entitled"}
    assert values(made, "entitlement_gap", **gap) == [1]
    assert values(made, "entitlement_gap", pod="train-0") == []
    assert values(made, "agent_entitlements_up") == [1]
    assert values(made, "cpu_quota_cores", pod="train-0") == [2.5]
    assert values(made, "pressure_seconds_total", pod="train-0", resource="io") == [7]
    assert values(made, "device_processes", gpu="0", state="claimed") == [1]


def test_the_time_split_adds_up() -> None:
    made = samples(busy_snapshot())
    for pod, observed in (("train-0", 103), ("serve-1", 107), ("", 109)):
        assert values(made, "process_seconds_total", pod=pod) == [observed]
        parts = values(made, "process_time_seconds_total", pod=pod)
        assert len(parts) == 4
        assert sum(parts) == pytest.approx(observed)
        host_waits = values(made, "process_time_seconds_total", pod=pod, state="host_waits")
        assert values(made, "blocked_wall_seconds_total", pod=pod) == host_waits


def test_a_histogram_is_cumulative_and_whole() -> None:
    counts = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
    given = histogram(*counts, sum_ns=47 * SECOND)
    made = samples(snapshot(series=(series(histograms={Cause.SYNCHRONIZE: given}),)))
    buckets = [s for s in made if s.name == "gpugauge_blocked_duration_seconds_bucket"]
    assert len(buckets) == 8
    assert [float(s.labels["le"]) for s in buckets] == [*BUCKET_BOUNDS, float("inf")]
    assert [s.value for s in buckets] == [
        sum(counts[: index + 1]) for index in (2, 4, 5, 6, 7, 8, 10, 13)
    ]
    assert values(made, "blocked_duration_seconds_count") == [sum(counts)]
    assert values(made, "blocked_duration_seconds_sum") == [47]
    # Bucket i of the model ends at 2^(10 + 2 i) ns.
    assert [round(bound * 1e9) for bound in BUCKET_BOUNDS] == [
        1 << (10 + 2 * index) for index in (2, 4, 5, 6, 7, 8, 10)
    ]


def test_what_is_unknown_is_absent() -> None:
    made = samples(
        snapshot(
            series=(series(),),
            devices=(
                Device(
                    uuid=GPU_B,
                    index=0,
                    model="",
                    pci_bus_id="",
                    memory_total_bytes=None,
                    memory_used_bytes=None,
                    memory_reserved_bytes=None,
                    utilization_ratio=None,
                    compute_mode="",
                    processes=None,
                ),
            ),
            agent=health(probe_cost_ns=None),
        )
    )
    names = {sample.name for sample in made}
    for name in (
        "known_idle_seconds_total",
        "launch_issue_seconds",
        "memory_requested_bytes",
        "memory_held_bytes",
        "device_memory_used_bytes",
        "device_utilization_ratio",
        "agent_probe_cost_seconds",
        "cpu_quota_cores",
    ):
        assert f"gpugauge_{name}" not in names
    assert values(made, "launches_total") == [0]  # known to be none


def test_unknown_owners_and_devices_are_labelled() -> None:
    made = samples(snapshot(series=(series(NOBODY, "unknown", operations=operations(LAUNCH=7)),)))
    assert values(made, "launches_total", scope="unknown", gpu_uuid="unknown") == [7]
    made = samples(snapshot(series=(series(HOST, "", operations=operations(LAUNCH=7)),)))
    assert values(made, "launches_total", scope="host", gpu_uuid="unknown", pod="") == [7]


def test_agent_losses_are_all_there_from_zero() -> None:
    made = samples(snapshot(agent=health(losses={Loss.QUOTA: 5, Loss.DUPLICATE_HITS: 3})))
    assert len(values(made, "agent_lost_updates_total")) == len(LOST_UPDATES)
    assert values(made, "agent_lost_updates_total", reason="quota") == [5]
    assert values(made, "agent_lost_updates_total", reason="threads_full") == [0]
    assert values(made, "agent_duplicate_hits_total") == [3]


def test_launch_threads_only_by_option() -> None:
    of = snapshot(series=(series(launch_threads=73),))
    assert values(samples(of), "launch_threads_total") == [73]
    assert values(samples(of, SeriesSettings()), "launch_threads_total") == []


def test_findings() -> None:
    class Found:
        rule, severity, owner, gpu_uuid = "starved", "warning", owner("train-0"), GPU_A

    class NodeWide:
        rule, severity, owner, gpu_uuid = "nvml_silent", "error", None, ""

    exposition = Exposition(ROOMY)
    exposition.publish(busy_snapshot(), (Found(), NodeWide(), Found()))
    made = parsed(exposition)
    assert values(made, "finding", pod="train-0", rule="starved", severity="warning") == [1]
    assert values(made, "finding", pod="", scope="", rule="nvml_silent") == [1]
    assert len(values(made, "finding")) == 2


# ---- one label set, several owners -------------------------------------------


def test_owners_of_one_label_set_are_added_up() -> None:
    first, second = owner("db-0", pod_uid="a"), owner("db-0", pod_uid="b")
    made = samples(
        snapshot(
            series=(busy_series(first), busy_series(second, factor=2)),
            times=(times(first), times(second)),
        )
    )
    assert values(made, "launches_total") == [303]
    assert values(made, "memory_requested_bytes", family="device") == [249_000_009]
    assert values(made, "process_seconds_total") == [206]
    assert values(made, "blocked_duration_seconds_count", cause="copy") == [106]
    assert values(made, "inflight_blocked_seconds", cause="synchronize") == [158]
    assert values(made, "launch_issue_seconds") == [4.1e-6]


def test_unknown_parts_are_left_out_of_a_sum() -> None:
    first, second = owner("db-0", pod_uid="a"), owner("db-0", pod_uid="b")
    memory = {Family.DEVICE: Memory(requested_bytes=7)}
    made = samples(snapshot(series=(series(first, memory=memory, known_idle_ns=5 * SECOND),
                                    series(second))))  # fmt: skip
    assert values(made, "memory_requested_bytes") == [7]
    assert values(made, "known_idle_seconds_total") == [5]
    assert values(made, "memory_held_bytes") == []


def test_a_counter_does_not_fall_when_an_owner_of_its_label_set_is_retired() -> None:
    first, second = owner("db-0", pod_uid="a"), owner("db-0", pod_uid="b")
    exposition = Exposition(ROOMY)
    tick = snapshot(
        series=(
            series(first, operations=operations(LAUNCH=101),
                   histograms={Cause.COPY: histogram(5, 7, sum_ns=11)}),
            series(second, operations=operations(LAUNCH=7),
                   histograms={Cause.COPY: histogram(0, 3, sum_ns=2)}),
        )
    )  # fmt: skip
    exposition.publish(tick)
    assert values(parsed(exposition), "launches_total") == [108]
    alone = series(second, operations=operations(LAUNCH=10),
                   histograms={Cause.COPY: histogram(1, 4, sum_ns=3)})  # fmt: skip
    exposition.publish(next_tick(tick, series=(alone,)))
    assert values(parsed(exposition), "launches_total") == [108]
    grown = replace(alone, operations=operations(LAUNCH=23))
    exposition.publish(next_tick(tick, series=(grown,)))
    made = parsed(exposition)
    assert values(made, "launches_total") == [121]
    assert values(made, "blocked_duration_seconds_count") == [15]


def test_a_series_long_gone_begins_anew() -> None:
    clock = [0.0]
    exposition = Exposition(ROOMY, lambda: clock[0])
    pod = owner("db-0")
    exposition.publish(snapshot(series=(series(pod, operations=operations(LAUNCH=101)),)))
    exposition.text()
    clock[0] = 200.0
    exposition.publish(snapshot())
    assert values(parsed(exposition), "launches_total") == []
    clock[0] = 400.0  # over retire_seconds since it was shown
    exposition.publish(snapshot())
    exposition.text()
    exposition.publish(snapshot(series=(series(pod, operations=operations(LAUNCH=7)),)))
    assert values(parsed(exposition), "launches_total") == [7]


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=4), max_size=8))
def test_shown_counters_never_fall(ticks: list[list[tuple[int, int]]]) -> None:
    """Owners of one label set come, grow and go in any order."""
    exposition = Exposition(ROOMY)
    shown = 0.0
    for tick in ticks:
        present = dict(tick)
        rows = tuple(
            series(owner("db-0", pod_uid=str(uid)), operations=operations(LAUNCH=calls))
            for uid, calls in present.items()
        )
        exposition.publish(snapshot(series=rows))
        found = values(parsed(exposition), "launches_total")
        assert len(found) == bool(rows)
        for value in found:
            assert value >= shown
            shown = value


# ---- budgets -----------------------------------------------------------------


def test_one_owner_keeps_to_its_budget_and_the_rest_is_counted() -> None:
    of = snapshot(series=(busy_series(owner()), busy_series(owner("serve-1"))))
    whole = samples(of)
    held = samples(of, SeriesSettings(per_owner=40))
    for pod in ("train-0", "serve-1"):
        mine = [s for s in held if s.labels.get("pod") == pod and "gpu_uuid" in s.labels]
        assert 30 < len(mine) <= 40
    lost = sum("gpu_uuid" in s.labels for s in whole) - sum("gpu_uuid" in s.labels for s in held)
    # launch_threads is off here, on there
    assert values(held, "agent_series_dropped") == [lost - 2]
    assert values(whole, "agent_series_dropped") == [0]


def test_a_usual_workload_fits_its_budget() -> None:
    usual = series(
        owner(),
        operations=operations(
            LAUNCH=1009, GRAPH_LAUNCH=101, SYNCHRONIZE=103, COPY_HTOD=107, COPY_DTOH=109, SET=3
        ),
        blocked_ns=dict.fromkeys(Cause, 7),
        histograms={Cause.SYNCHRONIZE: histogram(5), Cause.COPY: histogram(3)},
        errors={(Slot.ALLOCATE, 2): 1},
        known_idle_ns=5,
        issue_ns=4100,
        open_calls={Cause.SYNCHRONIZE: OpenCall(calls=1, blocked_ns=5, oldest_ns=5)},
        memory={Family.DEVICE: Memory(5, 5, 5, 5), Family.HOST: Memory(3, 3, 3, 3)},
        memory_held_bytes=11,
    )
    made = samples(snapshot(series=(usual,)), SeriesSettings())
    assert values(made, "agent_series_dropped") == [0]


def test_owners_beyond_the_node_s_budget_are_added_up_in_other() -> None:
    pods = [owner(f"train-{number:03}") for number in range(23)]
    settings = SeriesSettings(per_node=600, per_owner=60)  # room for ten
    of = snapshot(
        series=tuple(series(pod, operations=operations(LAUNCH=7)) for pod in pods),
        times=tuple(times(pod) for pod in pods),
    )
    made = samples(of, settings)
    assert values(made, "launches_total", pod="other", scope="other") == [13 * 7]
    assert sum(values(made, "launches_total")) == 23 * 7
    assert len(values(made, "launches_total")) == 11
    assert sum(values(made, "process_seconds_total")) == 23 * 103
    assert values(made, "agent_folded_owners") == [13]


def test_who_came_first_keeps_its_series() -> None:
    settings = SeriesSettings(per_node=100, per_owner=50)  # room for two
    exposition = Exposition(settings)
    first = tuple(series(owner(name)) for name in ("m-0", "z-0"))
    exposition.publish(snapshot(series=first))
    exposition.text()
    exposition.publish(snapshot(series=(*first, series(owner("a-0")))))
    shown = {s.labels["pod"] for s in parsed(exposition) if s.name == "gpugauge_launches_total"}
    assert shown == {"m-0", "z-0", "other"}
    exposition.publish(snapshot(series=(first[1], series(owner("a-0")))))
    shown = {s.labels["pod"] for s in parsed(exposition) if s.name == "gpugauge_launches_total"}
    assert shown == {"z-0", "a-0"}


def test_two_devices_that_nvml_lost_are_told_apart_by_index() -> None:
    lost = tuple(device("unknown", index=number, model="unknown") for number in (3, 5))
    made = samples(snapshot(devices=(*lost, device())))
    assert len(values(made, "device_info")) == 3
    assert values(made, "device_info", gpu="5", gpu_uuid="unknown") == [1]


def test_rare_errors_are_counted_together() -> None:
    errors = {(Slot.LAUNCH, code): 100 - code for code in range(1, 14)}
    made = samples(snapshot(series=(series(errors=errors),)))
    assert len(values(made, "errors_total")) == 9
    assert sum(values(made, "errors_total")) == sum(errors.values())
    assert values(made, "errors_total", code="other") == [sum(100 - c for c in range(9, 14))]


def test_rendered_once_a_snapshot() -> None:
    exposition = Exposition(ROOMY)
    assert exposition.text() == b""
    exposition.publish(busy_snapshot())
    assert exposition.text() is exposition.text()
    assert exposition.text(compressed=True) is exposition.text(compressed=True)


def test_the_tick_does_not_wait_for_a_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    exposition = Exposition(ROOMY)
    exposition.publish(busy_snapshot())
    begun, go_on = threading.Event(), threading.Event()
    whole = FamilyWriter.write

    def slow(self: FamilyWriter, metric: Metric, view: View) -> str:
        begun.set()
        assert go_on.wait(60)
        return whole(self, metric, view)

    monkeypatch.setattr(FamilyWriter, "write", slow)
    scrape = threading.Thread(target=exposition.text)
    scrape.start()
    try:
        assert begun.wait(60)
        exposition.publish(snapshot(number=17))  # would hang here
        assert exposition.snapshot is not None
        assert exposition.snapshot.number == 17
    finally:
        go_on.set()
        scrape.join()
    assert values(parsed(exposition), "launches_total") == []
