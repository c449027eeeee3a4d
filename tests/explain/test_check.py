"""`gpugauge check` tells what `explain --node` finds, by the same checks."""

from __future__ import annotations

from gpugauge.cli.check.line import State
from gpugauge.cli.check.node import report_lines
from tests.explain.cases import nouveau, plugin_not_registered
from tests.explain.stage import Stage


def test_findings_become_lines(stage: Stage) -> None:
    plugin_not_registered(stage)
    (line,) = report_lines(stage.explain(""))
    assert (line.state, line.subject) == (State.WARN, "device plugin")
    assert "plugin sockets: none." in line.what
    assert "device-plugin" in line.remedy


def test_what_check_tells_by_itself_is_not_told_twice(stage: Stage) -> None:
    nouveau(stage)
    lines = list(report_lines(stage.explain("")))
    assert [line.what for line in lines] == ["nouveau is loaded and bound to 0000:01:00.0."]


def test_a_healthy_node_is_one_line(stage: Stage) -> None:
    (line,) = report_lines(stage.explain(""))
    assert line.state is State.OK
    assert "driver" in line.what
