"""All checks, in request order. A new one is a function, and an entry of its module's CHECKS."""

from gpugauge.explain.check import Check
from gpugauge.explain.checks import (
    allocation,
    driver,
    inside,
    plugin,
    process,
    scheduling,
    sharing,
    spec,
    start,
    toolkit,
    work,
    xid,
)

CHECKS: tuple[Check, ...] = (
    *spec.CHECKS,
    *scheduling.CHECKS,
    *plugin.CHECKS,
    *sharing.CHECKS,
    *allocation.CHECKS,
    *start.CHECKS,
    *toolkit.CHECKS,
    *inside.CHECKS,
    *driver.CHECKS,
    *xid.CHECKS,
    *process.CHECKS,
    *work.CHECKS,
)
