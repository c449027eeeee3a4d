"""NVML's own thread: deadlines, hangs, recovery, release. Nothing here waits for real time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugauge.model.device import Device, Inventory
from gpugauge.units import NS_PER_SECOND
from gpugauge.vendors.nvml_thread import NvmlThread

PATIENT_NS = 30 * NS_PER_SECOND
IMPATIENT_NS = NS_PER_SECOND // 100


def device(uuid: str) -> Device:
    return Device(uuid, 0, "model", "pci", 7, 5, 3, 0.5, "default")


def answer(number: int) -> Inventory:
    return Inventory((device(f"GPU-{number}"),), "580.159.04", "13.0")


class Driver:
    """A driver that hangs when told to. Calls are counted."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.may_go.set()
        self.returned = threading.Semaphore(0)
        self.reads = 0
        self.releases = 0
        self.threads: set[int] = set()
        self.error: Exception | None = None

    def _pass(self) -> None:
        self.threads.add(threading.get_ident())
        assert self.may_go.wait(60)

    def read(self) -> Inventory:
        self.reads += 1
        number = self.reads
        self._pass()
        if self.error:
            raise self.error
        return answer(number)

    def release(self) -> None:
        self.releases += 1
        self._pass()
        if self.error:
            raise self.error


class Clock:
    def __init__(self) -> None:
        self.now_ns = 7 * NS_PER_SECOND

    def __call__(self) -> int:
        return self.now_ns


Made = Callable[..., NvmlThread]


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(driver: Driver, clock: Clock) -> Iterator[Made]:
    made: list[NvmlThread] = []

    def build(deadline_ns: int = PATIENT_NS) -> NvmlThread:
        made.append(NvmlThread(driver.read, driver.release, deadline_ns, clock))
        return made[-1]

    yield build
    driver.may_go.set()
    for thread in made:
        thread.close()


def settle(thread: NvmlThread) -> None:
    """Wait until the call that hung has returned."""
    with thread._changed:
        assert thread._changed.wait_for(lambda: not thread._busy(), 60)


def test_each_tick_gets_a_new_answer_of_age_zero(make: Made, driver: Driver) -> None:
    nvml = make()
    for number in (1, 2, 3):
        inventory = nvml.inventory()
        assert inventory == answer(number)
    assert (driver.reads, len(driver.threads)) == (3, 1)
    assert driver.threads != {threading.get_ident()}


def test_a_hang_at_the_first_call_is_said_with_its_length(
    make: Made, driver: Driver, clock: Clock
) -> None:
    nvml = make(IMPATIENT_NS)
    driver.may_go.clear()
    assert nvml.inventory() == Inventory((), "", "", error="NVML not answering since 0 s.")
    clock.now_ns += 13 * NS_PER_SECOND
    assert nvml.inventory() == Inventory((), "", "", error="NVML not answering since 13 s.")
    assert nvml.hanging


def test_while_it_hangs_the_last_answer_goes_on_with_its_age(
    make: Made, driver: Driver, clock: Clock
) -> None:
    nvml = make(PATIENT_NS)
    nvml.inventory()
    nvml._deadline_ns = IMPATIENT_NS
    driver.may_go.clear()
    threads = threading.active_count()
    clock.now_ns += NS_PER_SECOND
    for tick in range(1, 12):
        inventory = nvml.inventory()
        assert inventory.devices == answer(1).devices
        assert inventory.age_ns == tick * NS_PER_SECOND
        assert inventory.error == f"NVML not answering since {tick - 1} s."
        clock.now_ns += NS_PER_SECOND
    # One call is out, and no thread was added to wait with it.
    assert (driver.reads, len(driver.threads)) == (2, 1)
    assert threading.active_count() == threads


def test_it_recovers_by_itself(make: Made, driver: Driver, clock: Clock) -> None:
    nvml = make(IMPATIENT_NS)
    driver.may_go.clear()
    nvml.inventory()
    nvml._deadline_ns = PATIENT_NS
    clock.now_ns += 17 * NS_PER_SECOND
    driver.may_go.set()
    settle(nvml)
    assert nvml.inventory() == answer(2)
    assert not nvml.hanging
    assert len(driver.threads) == 1


def test_an_exception_is_an_error_and_the_thread_lives_on(make: Made, driver: Driver) -> None:
    nvml = make()
    driver.error = OSError("gone")
    assert nvml.inventory() == Inventory((), "", "", error="NVML failed: OSError: gone.")
    assert nvml.release()
    driver.error = None
    assert nvml.inventory() == answer(2)
    assert len(driver.threads) == 1


def test_release_runs_in_the_same_thread_and_the_next_tick_reads_again(
    make: Made, driver: Driver
) -> None:
    nvml = make()
    nvml.inventory()
    assert nvml.release()
    assert (driver.releases, len(driver.threads)) == (1, 1)
    assert nvml.inventory() == answer(2)


def test_release_before_any_reading(make: Made, driver: Driver) -> None:
    nvml = make()
    assert nvml.release()
    assert nvml.inventory() == answer(1)


def test_nothing_is_released_under_a_call_that_hangs(make: Made, driver: Driver) -> None:
    nvml = make(IMPATIENT_NS)
    driver.may_go.clear()
    nvml.inventory()
    assert not nvml.release()
    assert driver.releases == 0
    nvml._deadline_ns = PATIENT_NS
    driver.may_go.set()
    settle(nvml)
    assert nvml.release()
    assert driver.releases == 1


def test_a_release_that_hangs_is_not_taken_for_done(make: Made, driver: Driver) -> None:
    nvml = make()
    nvml.inventory()
    nvml._deadline_ns = IMPATIENT_NS
    driver.may_go.clear()
    assert not nvml.release()
    inventory = nvml.inventory()
    assert inventory.devices == answer(1).devices
    assert inventory.error == "NVML not answering since 0 s."


def test_close_ends_the_thread(make: Made, driver: Driver) -> None:
    nvml = make()
    nvml.inventory()
    assert nvml.close()
    assert driver.releases == 1


def test_close_does_not_wait_for_a_hang_and_the_thread_ends_when_it_is_over(
    make: Made, driver: Driver
) -> None:
    nvml = make(IMPATIENT_NS)
    driver.may_go.clear()
    nvml.inventory()
    assert not nvml.close()
    assert nvml._thread.daemon
    driver.may_go.set()
    nvml._thread.join(60)
    assert not nvml._thread.is_alive()


STEPS = st.lists(st.sampled_from(["tick", "hang", "go", "fail", "heal", "release"]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_any_schedule_of_faults(steps: list[str]) -> None:
    driver, clock = Driver(), Clock()
    nvml = NvmlThread(driver.read, driver.release, PATIENT_NS, clock)
    out = False  # a call hangs
    told: Inventory | None = None  # what the driver said last, if it said anything
    told_ns = since_ns = 0
    try:
        for step in steps:
            clock.now_ns += NS_PER_SECOND
            hung = not driver.may_go.is_set()
            if step == "hang":
                driver.may_go.clear()
                nvml._deadline_ns = IMPATIENT_NS
            elif step == "go":
                driver.may_go.set()
                nvml._deadline_ns = PATIENT_NS
                settle(nvml)
                if out and nvml._answer is not None and nvml._answered_ns == clock.now_ns:
                    told, told_ns = nvml._answer, clock.now_ns
                out = False
            elif step in ("fail", "heal"):
                driver.error = OSError("gone") if step == "fail" else None
            elif step == "release":
                released = nvml.release()
                assert released == (not hung and not out)
                if not out:
                    out, since_ns = hung, clock.now_ns
            else:
                before = driver.reads
                inventory = nvml.inventory()
                assert driver.reads - before <= 1
                if hung or out:
                    if not out:
                        out, since_ns = True, clock.now_ns
                    silent_s = (clock.now_ns - since_ns) // NS_PER_SECOND
                    assert inventory.error == f"NVML not answering since {silent_s} s."
                    assert inventory.devices == (told.devices if told else ())
                    assert inventory.age_ns == (clock.now_ns - told_ns if told else 0)
                else:
                    expected = (
                        Inventory((), "", "", error="NVML failed: OSError: gone.")
                        if driver.error
                        else answer(driver.reads)
                    )
                    assert inventory == expected
                    told, told_ns = inventory, clock.now_ns
            assert len(driver.threads) <= 1
    finally:
        driver.may_go.set()
        nvml._deadline_ns = PATIENT_NS
        settle(nvml)
        assert nvml.close()
