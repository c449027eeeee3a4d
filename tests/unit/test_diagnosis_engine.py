"""The engine on scripted nodes: what it compares, whom it may blame, what it lacks."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpugauge.diagnosis import Engine
from gpugauge.model.device import DeviceProcess
from gpugauge.model.finding import Confidence, Finding, Severity
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import DiagnosisSettings, HistorySettings, PriceSettings, Settings
from tests.incidents import programs
from tests.incidents.node import Node
from tests.incidents.program import Process, Program
from tests.incidents.seen import MODEL

Change = Callable[[Snapshot], Snapshot]


def same(snapshot: Snapshot) -> Snapshot:
    return snapshot


def run(node: Node, engine: Engine, seconds: float, change: Change = same) -> dict[str, Finding]:
    """Let time pass, and return the findings seen, by rule."""
    seen = {}
    until = node.elapsed_s + seconds
    while node.elapsed_s < until:
        for finding in engine.observe(change(node.tick())):
            seen[finding.rule] = finding
    return seen


def training(**given: object) -> Program:
    values = {"gpu_s": 0.02, "host_s": 0.002, "loader_s": 0.01, "jitter": 0.01} | given
    return programs.training(random.Random(5), **values)


def trained(**given: object) -> tuple[Node, Engine, Process]:
    """Return a node with a pod whose usual work is known."""
    node = Node(random.Random(3))
    process = node.start("train-0", training())
    engine = Engine(Settings(**given))  # type: ignore[arg-type]
    assert run(node, engine, 240) == {}
    return node, engine, process


def neighbour(node: Node, pod: str = "batch-0", **given: object) -> Process:
    return node.start(pod, programs.batch(random.Random(7)), **given)


def test_a_neighbour_is_named_with_its_shares() -> None:
    node, engine, _ = trained()
    other = neighbour(node)
    found = run(node, engine, 40)["noisy_neighbour"]
    (party,) = found.parties
    assert (party.owner.pod, party.pid, party.role) == ("batch-0", other.pid, "neighbour")
    assert party.demand_ratio is not None
    assert party.demand_ratio < 0.3
    assert party.busy_ratio is not None
    assert party.busy_ratio > 0.5
    assert found.confidence is Confidence.SURE


def test_a_process_that_only_claims_the_device_is_never_blamed() -> None:
    node, engine, _ = trained()
    other = neighbour(node)

    def claim(snapshot: Snapshot) -> Snapshot:
        processes = tuple(
            replace(p, devices=tuple(replace(d, claimed=True) for d in p.devices))
            if p.pid == other.pid
            else p
            for p in snapshot.processes
        )
        devices = tuple(
            replace(d, processes=tuple(q for q in d.processes or () if q.pid != other.pid))
            for d in snapshot.devices
        )
        return replace(snapshot, processes=processes, devices=devices)

    assert "noisy_neighbour" not in run(node, engine, 60, claim)


def test_a_neighbour_whose_calls_are_not_seen_is_only_likely() -> None:
    node, engine, _ = trained()
    neighbour(node, unprobed=True)
    found = run(node, engine, 40)["noisy_neighbour"]
    assert found.confidence is Confidence.LIKELY
    assert found.lacked == ("the calls of the other process",)
    assert "not seen" in found.sentence


def test_a_wait_that_comes_without_a_neighbour_is_not_blamed_on_one() -> None:
    node, engine, process = trained()
    process.program = replace(process.program, gpu_s=process.program.gpu_s * 2)
    assert "noisy_neighbour" not in run(node, engine, 60)


def test_without_cgroup_data_the_cause_of_starvation_is_not_guessed() -> None:
    node, engine, process = trained()
    process.slow.loader = 8.0

    def no_cgroup(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, hosts=())

    seen = run(node, engine, 60, no_cgroup)
    assert all(f.severity is Severity.INFO for f in seen.values())
    if "cpu_starvation" in seen:
        assert "throttled time of the cgroup" in seen["cpu_starvation"].lacked


@pytest.mark.parametrize("seconds", [61, 3607])
def test_nothing_is_compared_across_a_gap(seconds: float) -> None:
    node, engine, process = trained()
    process.slow.loader = 8.0
    node.clock_s += seconds
    for one in node.processes:  # it worked on meanwhile
        one.counters.launches += 1_000_003
    assert run(node, engine, 8) == {}


def test_a_restarted_agent_is_not_compared_with_the_one_before() -> None:
    node, engine, process = trained()
    node.number = 0
    process.counters = type(process.counters)()
    assert run(node, engine, 60) == {}


def test_a_clock_that_goes_back_is_survived() -> None:
    node, engine, _ = trained()
    node.clock_s -= 100
    node.began_s -= 100
    assert run(node, engine, 120) == {}


def test_counters_that_go_back_are_no_incident() -> None:
    node, engine, process = trained()
    process.counters.launches = process.counters.syncs = 0
    assert run(node, engine, 60) == {}


def test_a_finding_ends_some_time_after_its_cause() -> None:
    node, engine, _ = trained()
    other = neighbour(node)
    assert "noisy_neighbour" in run(node, engine, 60)
    node.end(other)
    run(node, engine, 60)
    assert engine.findings == ()


def test_an_incident_is_not_learned_as_usual() -> None:
    node, engine, _ = trained()
    neighbour(node)
    run(node, engine, 1200)
    mine = [f.rule for f in engine.findings if f.owner and f.owner.pod == "train-0"]
    assert mine == ["noisy_neighbour"]


def test_the_onset_is_found_within_some_seconds() -> None:
    node, engine, _ = trained()
    began = node.tick().time_unix_ns
    neighbour(node)
    found = run(node, engine, 60)["noisy_neighbour"]
    assert abs(found.since_unix_ns - began) < 5e9
    assert found.since_unix_ns < found.found_unix_ns <= found.seen_unix_ns


def test_money_is_shown_where_a_price_is_known() -> None:
    settings = Settings(
        price=PriceSettings(currency="EUR", per_gpu_hour={MODEL: 3.7}),
        diagnosis=DiagnosisSettings(idle_holder_seconds=67.0),
    )
    node, engine = Node(random.Random(3)), Engine(settings)
    process = node.start("note-0", training())
    run(node, engine, 20)
    process.paused = True
    found = run(node, engine, 80)["idle_holder"]
    assert "at 3.70 EUR per hour" in found.sentence
    assert found.since_unix_ns < found.found_unix_ns - 60e9


def test_names_of_tenants_are_cleaned() -> None:
    node, engine, _ = trained()
    neighbour(node, pod="bad\x1b[31m" + "x" * 300)
    found = run(node, engine, 60)["noisy_neighbour"]
    assert found.sentence.isprintable()
    assert len(found.sentence) < 400


def test_processes_of_the_host_are_told_apart() -> None:
    node, engine = Node(random.Random(3)), Engine(Settings())
    node.pod("host")
    first = node.start("host", training(), command="train")
    run(node, engine, 240)
    second = node.start("host", programs.batch(random.Random(7)), command="bench")
    found = run(node, engine, 40)["noisy_neighbour"]
    assert found.pids == (first.pid,)
    assert [p.pid for p in found.parties] == [second.pid]
    assert f"bench ({second.pid})" in found.sentence


def test_history_stays_within_its_budget_with_many_processes() -> None:
    settings = Settings(history=HistorySettings(bytes=2 * 1024 * 1024))
    node, engine = Node(random.Random(3), gpus=8), Engine(settings)
    for number in range(101):
        node.start(f"pod-{number}", training(), gpu=number % 8)
    node.default_contention = 0.0
    for _ in range(160):
        engine.observe(node.tick())
    assert 0 < engine.history_bytes <= 2 * 1024 * 1024


def test_rules_say_what_they_lacked() -> None:
    node, engine = Node(random.Random(3)), Engine(Settings())
    node.start("train-0", training())
    run(node, engine, 20)
    assert ("noisy_neighbour", "ml/train-0", "processes that are past their start") in (
        engine.lacked()
    )


def test_of_what_has_ended_nothing_is_lacked() -> None:
    node, engine = Node(random.Random(3)), Engine(Settings())
    process = node.start("train-0", training())
    node.start("train-1", training())
    run(node, engine, 20)
    assert {whose for _, whose, _ in engine.lacked()} == {"ml/train-0", "ml/train-1"}
    node.end(process)
    run(node, engine, 5)
    assert {whose for _, whose, _ in engine.lacked()} == {"ml/train-1"}
    assert not any("train-0" in note for note in engine.notes())


def test_lost_counts_make_a_finding_less_sure() -> None:
    from gpugauge.model.abi import Loss

    node, engine, _ = trained()
    neighbour(node)
    lost = iter(range(1, 1000))

    def losing(snapshot: Snapshot) -> Snapshot:
        return replace(
            snapshot, agent=replace(snapshot.agent, losses={Loss.COUNTS_FULL: next(lost)})
        )

    found = run(node, engine, 40, losing)["noisy_neighbour"]
    assert found.confidence is Confidence.LIKELY


def test_a_device_process_of_nvml_that_was_always_there_is_not_new() -> None:
    node, engine = Node(random.Random(3)), Engine(Settings())
    process = node.start("train-0", training())

    def with_old(snapshot: Snapshot) -> Snapshot:
        devices = tuple(
            replace(d, processes=(*(d.processes or ()), DeviceProcess(99, 5_000_011)))
            for d in snapshot.devices
        )
        return replace(snapshot, devices=devices)

    run(node, engine, 240, with_old)
    process.program = replace(process.program, gpu_s=process.program.gpu_s * 3)
    assert "noisy_neighbour" not in run(node, engine, 60, with_old)


@pytest.mark.parametrize("crowd", [False, True])
def test_leaving_out_looks_at_calm_workloads_changes_nothing_that_is_said(
    crowd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpugauge.diagnosis import engine as module

    def said() -> list[tuple[str, int]]:
        node, engine, _ = trained()
        if crowd:
            neighbour(node)
        seen = run(node, engine, 60)
        return sorted((f.rule, f.found_unix_ns // 10**9) for f in seen.values())

    with_calm = said()
    monkeypatch.setattr(module, "is_calm", lambda *_: False)
    assert [rule for rule, _ in said()] == [rule for rule, _ in with_calm]
    assert bool(with_calm) == crowd


def test_a_calm_workload_is_seldom_looked_at_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    node, engine, _ = trained()
    looks = []
    look = Engine._look
    monkeypatch.setattr(Engine, "_look", lambda self, *a: (looks.append(1), look(self, *a)))
    run(node, engine, 60)
    assert len(looks) <= 7


def test_points_taken_in_turn_lose_no_counts() -> None:
    from gpugauge.diagnosis import columns as c

    node, engine = Node(random.Random(3), gpus=8), Engine(Settings())
    node.default_contention = 0.0
    for number in range(101):
        node.start(f"pod-{number}", training(), gpu=number % 8)
    first = node.tick()
    engine.observe(first)
    for _ in range(23):
        last = node.tick()
        engine.observe(last)
    before = {s.owner: s for s in first.series}
    for subject in engine._subjects.all.values():
        assert subject.track is not None
        counted = subject.track.fine.window(1e9)
        assert counted is not None
        launched = subject.totals[c.LAUNCHES] - c.totals(before[subject.owner])[c.LAUNCHES]
        assert counted[c.LAUNCHES] == pytest.approx(launched, rel=1e-5)
        assert last.time_monotonic_ns - subject.row_ns < 3.5e9
