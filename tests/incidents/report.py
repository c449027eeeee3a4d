"""The report: recall and precision by rule, time to detection, false alarms a simulated day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median

from tests.incidents.scenario import WITHIN_S
from tests.incidents.suite import Outcome


def report(incidents: list[Outcome], healthy: list[Outcome], *, reveal: bool = False) -> str:
    """Return the report as text, tuned and unseen apart.

    Args:
        incidents: outcomes with something wrong.
        healthy: outcomes without.
        reveal: also say which of the unseen ones went wrong; then they are seen.
    """
    lines = []
    for title, unseen in (("tuned", False), ("unseen", True)):
        part = [o for o in incidents if o.unseen is unseen]
        quiet = [o for o in healthy if o.unseen is unseen]
        lines += [f"## {title}: {len(part)} incidents", ""]
        lines += _by_rule(part)
        hours = sum(o.hours for o in quiet)
        alarms = sum(len(o.wrong) for o in quiet)
        per_day = alarms / hours * 24 if hours else 0.0
        lines += [
            "",
            f"right: {sum(o.right for o in part)} of {len(part)}; healthy: {hours:.0f} simulated "
            f"hours, {alarms} false alarms, {per_day:.2f} a simulated day",
            "",
        ]
    lines += _misses(o for o in (*incidents, *healthy) if reveal or not o.unseen)
    return "\n".join(lines)


def _by_rule(outcomes: list[Outcome]) -> list[str]:
    said = Counter(text.split()[1] for o in outcomes for text in o.wrong if len(text.split()) > 1)
    lines = [
        f"{'rule':24} {'recall':>12} {'precision':>9} {'in time':>8} {'median':>8} {'longest':>8}"
    ]
    for rule in dict.fromkeys(o.rule for o in outcomes):
        mine = [o for o in outcomes if o.rule == rule]
        found = sum(o.found for o in mine)
        delays = sorted(o.delay_s for o in mine if o.delay_s is not None)
        in_time = sum(delay <= WITHIN_S for delay in delays)
        wrong = said[rule]
        precision = found / (found + wrong) if found + wrong else 0.0
        lines.append(
            f"{rule:24} {found:5}/{len(mine):<6} {precision:9.3f} {in_time:8} "
            f"{median(delays) if delays else 0:6.1f} s {delays[-1] if delays else 0:6.1f} s"
        )
    return lines


def _misses(outcomes: Iterable[Outcome]) -> list[str]:
    lines = []
    for o in outcomes:
        if (o.rule and not o.right) or (not o.rule and o.wrong):
            what = "found" if o.found else "missed"
            delay = "" if o.delay_s is None else f" after {o.delay_s:.0f} s"
            lines.append(f"- seed {o.seed}, {o.rule or 'healthy'}, {o.name}: {what}{delay}")
            lines += [f"    wrong: {text}" for text in o.wrong[:3]]
    return ["misses and false alarms of those shown:", *lines] if lines else ["none to show"]
