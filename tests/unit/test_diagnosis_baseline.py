"""What is usual: phases are told apart, and a slow phase that is known is no incident."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpugauge.diagnosis import columns as c
from gpugauge.diagnosis.baseline import PHASES, Baseline
from gpugauge.diagnosis.case import SAME_WORK, lost_ratio
from gpugauge.diagnosis.figures import Figures, figures, medians


def window(launches: float = 1000, htod: float = 1e6, **given: float) -> Figures:
    row = [0.0] * c.WIDTH
    row[c.SECONDS], row[c.PROCESS_SECONDS], row[c.IDLE_KNOWN] = 10, 10, 10
    row[c.LAUNCHES], row[c.HTOD_BYTES], row[c.THREADS] = launches, htod, launches * 256
    return replace(figures(row, None), **given)


def learned(*windows: Figures, times: int = 7) -> Baseline:
    baseline = Baseline()
    for each in windows:
        for _ in range(times):
            baseline.learn(each)
    return baseline


def test_the_same_work_at_half_the_rate_has_lost_half() -> None:
    baseline = learned(window(1000, 1e6))
    now = window(500, 5e5)
    phase = baseline.like(now, 5, SAME_WORK)
    assert phase is not None
    assert lost_ratio(now, phase) == 0.5


def test_a_slow_phase_that_is_known_loses_nothing() -> None:
    baseline = learned(window(1000, 1e6), window(500, 5e5))
    now = window(500, 5e5)
    phase = baseline.like(now, 5, SAME_WORK)
    assert phase is not None
    assert lost_ratio(now, phase) == 0.0


def test_other_work_is_compared_with_nothing() -> None:
    baseline = learned(window(1000, 1e6))
    assert baseline.like(window(1000, 3e6), 5, SAME_WORK) is None


def test_few_windows_are_no_baseline() -> None:
    baseline = learned(window(), times=4)
    assert baseline.known(5) == []
    assert baseline.like(window(), 5, SAME_WORK) is None


def test_silence_is_counted_and_not_learned() -> None:
    baseline = learned(window(0, 0))
    assert baseline.phases == []
    assert baseline.quiet == 1.0


def test_phases_are_bounded_and_the_oldest_goes() -> None:
    baseline = learned(*(window(1000 * 2**n, 1e6 * 3**n) for n in range(PHASES + 3)))
    assert len(baseline.phases) == PHASES
    assert baseline.like(window(1000, 1e6), 5, SAME_WORK) is None


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=20))
def test_medians_ignore_what_is_not_known(values: list[float | None]) -> None:
    found = medians([window(idle_ratio=value) for value in values]).idle_ratio  # type: ignore[arg-type]
    known = [value for value in values if value is not None]
    assert (found is None) == (not known)
    if known:
        assert found is not None
        assert min(known) <= found <= max(known)
