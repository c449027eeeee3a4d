"""What every test shares: hypothesis runs the same examples everywhere, without deadlines."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "gpugauge",
    deadline=None,  # machines differ; pytest-timeout catches what hangs
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("gpugauge"), max_examples=2000)
settings.load_profile("gpugauge")
