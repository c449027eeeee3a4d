"""Entitlement beside use over time: who is named, and above all who is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpugauge.attribution.gaps import FORGET_SECONDS, UNUSED_SECONDS, EntitlementGaps
from gpugauge.model.abi import Slot
from gpugauge.model.device import DeviceProcess
from gpugauge.model.process import Operation
from gpugauge.model.snapshot import Entitlement, GapKind
from gpugauge.model.workload import HOST, UNKNOWN
from tests.support.snapshots import GPU_A, GPU_B, device, owner, process

HOUR = 3600.0


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gaps(clock):
    return EntitlementGaps(clock)


def held(of, gpu_uuid, **more):
    return Entitlement(owner=of, gpu_uuid=gpu_uuid, resource="nvidia.com/gpu",
                       device_id=more.pop("device_id", gpu_uuid), **more)  # fmt: skip


def works(of, gpu_uuid=GPU_A, *, slot=Slot.LAUNCH, **more):
    (on,) = process(of).devices
    on = replace(on, gpu_uuid=gpu_uuid, operations={slot: Operation(calls=1)}, **more.pop("on", {}))
    return process(of, devices=(on,), **more)


def named(found):
    return [(gap.owner.pod, gap.gpu_uuid, gap.kind) for gap in found]


def test_use_of_a_device_that_was_not_given(gaps, clock):
    gaps.saw([works(owner("thief-0")), works(owner("train-0"), number=2), works(HOST)])
    clock.now += 1
    given = [held(owner("train-0"), GPU_A)]
    assert named(gaps.gaps(given, asked_at=clock.now)) == [("thief-0", GPU_A, GapKind.NOT_ENTITLED)]
    # Given nothing at all, by a kubelet that answers: all that work are strangers.
    assert len(gaps.gaps([], asked_at=clock.now)) == 2


def test_a_pod_younger_than_the_kubelets_last_answer_is_not_named(gaps, clock):
    asked_at = clock.now
    clock.now += HOUR  # the kubelet has been silent since
    gaps.saw([works(owner("new-0"))])
    clock.now += HOUR
    gaps.saw([works(owner("new-0"))])
    assert gaps.gaps([], asked_at=asked_at) == ()
    assert named(gaps.gaps([], asked_at=clock.now)) == [("new-0", GPU_A, GapKind.NOT_ENTITLED)]


@pytest.mark.parametrize(
    "seen",
    [
        works(owner("a-0"), slot=Slot.CONTEXT),
        works(owner("a-0"), on={"claimed": True}),
        works(owner("a-0"), UNKNOWN),
        process(owner("a-0"), devices=()),
    ],
    ids=["a context alone", "claimed", "an unknown device", "no device"],
)
def test_what_is_no_use_of_that_device_names_nobody(gaps, clock, seen):
    gaps.saw([seen])
    clock.now += 1
    assert gaps.gaps([], asked_at=clock.now) == ()


def test_a_device_that_is_held_and_never_used(gaps, clock):
    given = [held(owner("train-0"), GPU_A), held(owner("idle-0"), GPU_B)]
    gaps.saw([works(owner("train-0"))])
    assert gaps.gaps(given, asked_at=clock.now) == ()
    clock.now += UNUSED_SECONDS - 1
    assert gaps.gaps(given, asked_at=clock.now) == ()
    clock.now += 1
    assert named(gaps.gaps(given, asked_at=clock.now)) == [("idle-0", GPU_B, GapKind.NOT_USED)]
    gaps.saw([works(owner("idle-0"), GPU_B)])
    assert gaps.gaps(given, asked_at=clock.now) == ()
    # Once used it is not "never used", however long ago that was.
    clock.now += HOUR
    assert gaps.gaps(given, asked_at=clock.now) == ()


def test_the_time_of_holding_begins_anew_when_it_was_given_back(gaps, clock):
    given = [held(owner("idle-0"), GPU_B)]
    gaps.gaps(given, asked_at=clock.now)
    clock.now += UNUSED_SECONDS
    gaps.gaps([], asked_at=clock.now)
    assert gaps.gaps(given, asked_at=clock.now) == ()


def test_what_was_not_seen_may_have_used_it(gaps, clock):
    given = [held(owner("late-0"), GPU_A), held(owner("silent-0"), GPU_B)]
    pids = {7: owner("silent-0"), 11: HOST}
    on_b = device(GPU_B, processes=tuple(DeviceProcess(pid, 1) for pid in pids))
    gaps.saw([process(owner("late-0"), devices=(), complete=False)])
    gaps.listed([device(GPU_A, processes=None), on_b], pids.__getitem__)
    gaps.gaps(given, asked_at=clock.now)
    clock.now += UNUSED_SECONDS
    assert gaps.gaps(given, asked_at=clock.now) == ()
    # A process whose calls are all seen, on the device by NVML: its context is no use.
    fresh = EntitlementGaps(clock)
    fresh.saw([process(owner("silent-0"), pid=7, devices=())])
    fresh.listed([on_b], pids.__getitem__)
    fresh.gaps(given[1:], asked_at=clock.now)
    clock.now += UNUSED_SECONDS
    assert named(fresh.gaps(given[1:], asked_at=clock.now)) == [
        ("silent-0", GPU_B, GapKind.NOT_USED)
    ]


def test_a_pod_that_opted_out_is_not_said_to_be_idle(gaps, clock):
    given = [held(owner("private-0", traced=False), GPU_A)]
    gaps.gaps(given, asked_at=clock.now)
    clock.now += UNUSED_SECONDS
    assert gaps.gaps(given, asked_at=clock.now) == ()


def test_a_mig_instance_and_its_gpu_count_as_one(gaps, clock):
    gaps.saw([works(owner("a-0"), "MIG-x")])
    clock.now += UNUSED_SECONDS
    given = [held(owner("a-0"), GPU_A)]
    assert gaps.gaps(given, asked_at=clock.now, mig_parents={"MIG-x": GPU_A}) == ()
    assert len(gaps.gaps(given, asked_at=clock.now)) == 1


def test_pods_that_are_gone_are_forgotten(gaps, clock):
    for number in range(997):
        gaps.saw([works(owner(f"pod-{number}"))])
    clock.now += FORGET_SECONDS + 1
    gaps.saw([works(owner("last-0"))])
    clock.now += 1
    assert named(gaps.gaps([], asked_at=clock.now)) == [("last-0", GPU_A, GapKind.NOT_ENTITLED)]
    assert len(gaps._work) == 1
