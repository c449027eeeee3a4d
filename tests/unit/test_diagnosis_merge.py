"""One cause is one finding; contradicting ones are ranked by the time they explain."""

from dataclasses import replace

from gpugauge.diagnosis.merge import fold, merge
from gpugauge.model.finding import Confidence, Finding, Severity
from tests.support.snapshots import GPU_A, GPU_B, owner


def finding(rule: str, explained: float = 0.5, **given: object) -> Finding:
    made = Finding(
        rule=rule,
        severity=Severity.WARNING,
        confidence=Confidence.SURE,
        owner=owner("train-0"),
        gpu_uuid=GPU_A,
        node="node-7",
        sentence=f"{rule} it is.",
        remedy="",
        wrong_when="",
        since_unix_ns=23,
        found_unix_ns=29,
        seen_unix_ns=31,
        explained_ratio=explained,
    )
    return replace(made, **given)  # type: ignore[arg-type]


def test_a_rule_absorbs_those_that_see_the_same_cause_in_either_order() -> None:
    for order in (1, -1):
        parts = [finding("cpu_starvation"), finding("host_slow")][::order]
        (only,) = merge(parts)
        assert only.rule == "host_slow"
        assert only.also == ("cpu_starvation",)


def test_contradicting_causes_keep_the_one_that_explains_more() -> None:
    (only,) = merge([finding("noisy_neighbour", 0.1), finding("cpu_starvation", 0.5)])
    assert (only.rule, only.also) == ("cpu_starvation", ("noisy_neighbour",))


def test_contradicting_causes_of_like_weight_stay_both() -> None:
    both = merge([finding("noisy_neighbour", 0.41), finding("cpu_starvation", 0.5)])
    assert [f.rule for f in both] == ["noisy_neighbour", "cpu_starvation"]


def test_incomplete_signals_weigh_less() -> None:
    unsure = finding("cpu_starvation", 0.5, confidence=Confidence.POSSIBLE)
    (only,) = merge([unsure, finding("noisy_neighbour", 0.45)])
    assert only.rule == "noisy_neighbour"


def test_information_never_absorbs_a_warning() -> None:
    weak = finding("cpu_starvation", 0.9, severity=Severity.INFO)
    (only,) = merge([weak, finding("rank_straggler", 0.3)])
    assert only.rule == "rank_straggler"


def test_one_pod_on_several_devices_is_one_finding_with_the_earliest_onset() -> None:
    late = finding("cpu_starvation", 0.7, pids=(41,))
    early = finding("cpu_starvation", 0.2, gpu_uuid=GPU_B, since_unix_ns=11, pids=(43,))
    (only,) = fold([late, early])
    assert only.sentence == "cpu_starvation it is (and on 1 more device)."
    assert (only.since_unix_ns, only.pids) == (11, (41, 43))


def test_other_pods_of_a_job_that_hangs_are_named_in_one_finding() -> None:
    ranks = [finding("hang", owner=owner(f"train-{n}"), gpu_uuid=f"GPU-{n}") for n in range(3)]
    (only,) = fold(ranks)
    assert only.sentence == "hang it is (and 2 more pods)."
    assert len(fold([finding("cuda_errors", owner=owner(f"train-{n}")) for n in range(3)])) == 3


def test_critical_comes_first() -> None:
    listed = fold([finding("idle_holder", 1.0), finding("hang", 0.1, severity=Severity.CRITICAL)])
    assert [f.rule for f in listed] == ["hang", "idle_holder"]
