"""What every test shares."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples everywhere, and no deadlines: machines differ, and pytest-timeout catches
# what hangs.
settings.register_profile(
    "gpugauge",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("gpugauge"), max_examples=2000)
settings.load_profile("gpugauge")

GPU_TESTS = Path(__file__).parent / "gpu"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in tests/gpu, so that it runs only where it is asked for."""
    for item in items:
        if GPU_TESTS in item.path.parents:
            item.add_marker("gpu")
