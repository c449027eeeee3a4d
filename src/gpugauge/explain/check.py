"""What a check is: a pure function from evidence to answers, in one layer, for some cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from gpugauge.explain.evidence import Evidence
from gpugauge.explain.report import Answer, Layer, Verdict

T = TypeVar("T")
Look = Callable[[Evidence], Iterable[Answer]]


class NotSeenError(Exception):
    """A source that the check needs was not seen; the text says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str
    layer: Layer
    cases: tuple[int, ...]
    """Numbers of the catalogue that it can recognise."""
    of_node: bool
    """It also answers when a node is looked at without a pod."""
    of_pod: bool
    look: Look

    def answers(self, evidence: Evidence) -> Iterator[Answer]:
        """Yield what it finds; what it could not see is an answer too."""
        try:
            for answer in self.look(evidence):
                yield replace(answer, check=self.name)
        except NotSeenError as why:
            yield Answer(check=self.name, verdict=Verdict.NOT_SEEN, seen=str(why))


def check(
    layer: Layer, *cases: int, node: bool = False, pod: bool = True
) -> Callable[[Look], Check]:
    """Make a check of a function; its name is the function's, with spaces."""

    def make(look: Look) -> Check:
        name = getattr(look, "__name__", "").replace("_", " ")
        return Check(name, layer, cases, node, pod, look)

    return make


def need(value: T | None, evidence: Evidence, source: str) -> T:
    """Return a source of the evidence that must have been seen.

    Raises:
        NotSeenError: it was not.
    """
    if value is None:
        raise NotSeenError(evidence.why(source))
    return value


def ok(seen: str) -> Answer:
    """Return that it was checked, and is as it should be."""
    return Answer(check="", verdict=Verdict.OK, seen=seen)


def broken(
    seen: str, expected: str, next_step: str, *, case: int = 0, guess: bool = False
) -> Answer:
    """Return that the request stops here."""
    return Answer(
        check="",
        verdict=Verdict.BROKEN,
        seen=seen,
        expected=expected,
        next_step=next_step,
        case=case,
        guess=guess,
    )


def warning(
    seen: str, expected: str, next_step: str, *, case: int = 0, guess: bool = False
) -> Answer:
    """Return that it goes on, and something is off."""
    return replace(
        broken(seen, expected, next_step, case=case, guess=guess), verdict=Verdict.WARNING
    )
