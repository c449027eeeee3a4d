"""One process of a job that the others wait for."""

from __future__ import annotations

from statistics import median

from gpugauge.diagnosis.case import Case, compare
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent
from gpugauge.model.finding import Evidence, Party, Severity

LEAST_PEERS = 2
SAME_RATE = 1.15
"""Ranks of one job go in step, so that their rates differ by less."""


def check(case: Case) -> Verdict:
    """It does the same work at the same rate as its peers, and waits far less than they do."""
    now, limits = case.now, case.settings
    if now is None or case.after_gap or case.starting:
        return LookAgain("processes that are past their start")
    if not now.work_per_second or len(case.peers) <= LEAST_PEERS:
        return FINE
    roughly = median([peer[3].blocked_ratio for peer in case.peers])
    if roughly - now.blocked_ratio < 0.5 * limits.rank_straggler_gap_ratio:
        return FINE
    others = [peer for peer in case.peers if peer[1] != case.gpu_uuid]
    peers = [
        peer
        for peer in others
        if _same(peer[3].work_per_second, now.work_per_second)
        and _same(peer[3].threads_per_launch, now.threads_per_launch)
        and _same(peer[3].htod_bytes_per_work, now.htod_bytes_per_work)
    ]
    if len(peers) < LEAST_PEERS or len(peers) < 0.7 * len(others):
        return FINE  # not in step, or stages of a pipeline that differ by design
    waits = sorted(peer[3].blocked_ratio for peer in peers)
    typical = median(waits)
    gap = typical - now.blocked_ratio
    if gap < case.slack(limits.rank_straggler_gap_ratio):
        return FINE
    most = limits.rank_straggler_blocked_ratio * (1.2 if case.open_now else 1.0)
    if now.blocked_ratio > most * typical or waits[0] < 0.6 * typical:
        return FINE  # more than one waits little: work is divided unevenly by design
    owner_pids = tuple(process.pid for process, _ in case.processes[:16])
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"is what the other {len(peers)} processes of its job here wait for: it waits "
        f"{percent(now.blocked_ratio)} of the time, they {percent(typical)}.",
        remedy=RULE.remedy,
        evidence=(
            Evidence(name="blocked", unit="ratio", now=now.blocked_ratio),
            Evidence(name="blocked, its peers (median)", unit="ratio", now=typical),
            *compare("launches", "1/s", now.work_per_second,
                     median(peer[3].work_per_second for peer in peers)),
            *compare("known idle", "ratio", now.idle_ratio, None),
            *compare("CPU time throttled", "ratio", now.throttled_ratio, None),
        ),
        parties=tuple(
            Party(owner=owner, process_number=0, pid=pid, command="", role="waiting")
            for owner, _, pid, _ in peers[:8]
        ),
        pids=owner_pids,
        explained_ratio=gap,
    )  # fmt: skip


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None or (a < 1e-9 and b < 1e-9):
        return True
    low, high = sorted((a, b))
    return low > 0 and high / low <= SAME_RATE


RULE = Rule(
    id="rank_straggler",
    title="Rank straggler",
    needs=("blocked time", "launches", "at least three processes of one job on this node"),
    settings=("rank_straggler_blocked_ratio", "rank_straggler_gap_ratio"),
    meaning="Processes of one job that go in step wait for the slowest at every step. The slowest "
    "is the one that hardly waits: the others are blocked in its stead.",
    remedy="Compare its node, CPU, data and GPU clocks with its peers': the same rule or "
    "`cpu_starvation` on its pod often tells what slows it. If it is always the same GPU, test "
    "that GPU.",
    wrong_when="Jobs whose ranks differ by design, such as stages of a pipeline, if they happen "
    "to launch alike. Peers on other nodes are not seen.",
    absorbs=("launch_bound", "cpu_starvation"),
    check=check,
)
