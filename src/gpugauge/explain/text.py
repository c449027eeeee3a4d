"""The report for people: a drawing of the request's path, 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gpugauge.discovery.names import clean
from gpugauge.explain.report import Answer, Layer, Report, Step, Verdict
from gpugauge.explain.text_memory import memory_lines

WIDTH = 80
_MARKS = {Verdict.OK: "o", Verdict.WARNING: "!", Verdict.BROKEN: "X", Verdict.NOT_SEEN: "?"}
_WORDS = {
    Verdict.OK: "ok",
    Verdict.WARNING: "warning",
    Verdict.BROKEN: "BROKEN",
    Verdict.NOT_SEEN: "not seen",
}
_HEAD = 32
"""Columns before what was seen: mark, layer and verdict."""
_OK_LINES = 2


def report_text(report: Report, *, memory: bool = True) -> str:
    """Return the whole report as lines of at most 80 columns."""
    # Commands of processes and words of the runtime are tenants': nothing steers the terminal.
    return "".join(f"{clean(line, WIDTH)}\n" for line in _lines(report, memory))


def _lines(report: Report, memory: bool) -> Iterator[str]:
    title = f"{report.subject}"
    if report.node and not report.subject.startswith("node "):
        title += f" on {report.node}"
    if report.simulated:
        title += " (simulated driver)"
    yield title[:WIDTH]
    broken = False
    for step in report.steps:
        yield from _step(step, after_break=broken)
        broken = broken or step.verdict is Verdict.BROKEN
    yield ""
    yield from textwrap.wrap(report.conclusion, WIDTH, break_on_hyphens=False)
    if memory:
        yield from memory_lines(report)


def _step(step: Step, *, after_break: bool) -> Iterator[str]:
    # A line on the left ties the steps together; below a break nothing flows.
    rail = ":" if after_break or step.verdict is Verdict.BROKEN else "|"
    shown = [one for one in step.answers if one.verdict is step.verdict]
    if step.verdict is Verdict.OK:
        seen = "; ".join(one.seen for one in shown)
        yield from _head(step.layer, step.verdict, _wrapped(seen, _OK_LINES), rail)
        return
    if step.verdict is Verdict.NOT_SEEN:
        # What was not seen is told once; what was seen beside it follows.
        reasons = list(dict.fromkeys(one.seen for one in shown))
        lines = _wrapped("because " + reasons[0])
        lines += [line for why in reasons[1:3] if not after_break for line in _wrapped(why)]
        yield from _head(step.layer, step.verdict, lines, rail)
        good = [one.seen for one in step.answers if one.verdict is Verdict.OK]
        if good:
            for line in _wrapped("ok: " + "; ".join(good), _OK_LINES):
                yield f"  {rail}{'':{_HEAD - 3}}{line}"
        return
    for number, one in enumerate(shown):
        head = _head(step.layer if not number else None, step.verdict, _wrapped(_seen(one)), rail)
        yield from head
        yield from _told(rail, "expected", one.expected)
        yield from _told(rail, "next", one.next_step)
    if step.verdict is Verdict.BROKEN:
        for one in step.answers:
            if one.verdict is Verdict.WARNING:
                yield from _head(None, one.verdict, _wrapped(_seen(one)), rail)


def _seen(answer: Answer) -> str:
    marks = [*(["a guess"] if answer.guess else []), *([f"case {answer.case}"] * bool(answer.case))]
    return answer.seen + (f" [{', '.join(marks)}]" if marks else "")


def _head(layer: Layer | None, verdict: Verdict, lines: list[str], rail: str) -> Iterator[str]:
    mark = _MARKS[verdict] if layer else rail
    name = layer.value if layer else ""
    for number, line in enumerate(lines):
        if number:
            yield f"  {rail}{'':{_HEAD - 3}}{line}"
        else:
            yield f"  {mark} {name:<18}{_WORDS[verdict]:<9} {line}".rstrip()


def _told(rail: str, word: str, told: str) -> Iterator[str]:
    for number, line in enumerate(textwrap.wrap(told, WIDTH - 17, break_on_hyphens=False)):
        yield f"  {rail}   {word if not number else '':<10} {line}"


def _wrapped(told: str, lines: int | None = None) -> list[str]:
    wrapped = textwrap.wrap(
        told, WIDTH - _HEAD, break_on_hyphens=False, max_lines=lines, placeholder=" ..."
    )
    return wrapped or [""]
