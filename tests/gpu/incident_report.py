"""What was expected of a run beside what was said, as a table, as JSON, and its recording."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpugauge.codec.finding import dump_findings
from gpugauge.diagnosis.text import evidence_text
from gpugauge.model.finding import Severity
from tests.gpu.incident_run import SECOND, Key, Named, Run
from tests.incidents.clean import cleaned
from tests.incidents.clean import write as write_recording

WITHIN_S = 30.0
"""Two scrapes of 15 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Something that is wrong, by who made it so."""

    rule: str
    kind: str
    onset_unix_ns: int
    """When it can be seen: where a rule waits by itself, that time is added."""
    words: tuple[str, ...] = ()
    party: int = 0
    """Pid of the other side."""
    wanted: bool = True
    """False: it is true, and need not be said."""

    @property
    def key(self) -> Key:
        """As the run keeps findings."""
        return (self.rule, self.kind)


def cause(rule: str, kind: str, onset_unix_ns: int, *, after_s: float = 0.0, **more: Any) -> Cause:
    """Return a cause; `after_s` is the time that the rule waits by its settings."""
    onset = onset_unix_ns + int(after_s * SECOND)
    return Cause(rule=rule, kind=kind, onset_unix_ns=onset, **more)


def delay_s(cause: Cause, named: Named) -> float:
    """Return how long after its onset a cause was named."""
    return (named.first.found_unix_ns - cause.onset_unix_ns) / SECOND


def is_right(cause: Cause, named: Named | None) -> bool:
    """Whether it was named in time, with the words and the other side that belong to it."""
    if named is None:
        return False
    sentences = f"{named.first.sentence} {named.last.sentence}"
    parties = {p.pid for p in (*named.first.parties, *named.last.parties)}
    return (
        -1.5 <= delay_s(cause, named) <= WITHIN_S
        and all(word in sentences for word in cause.words)
        and (not cause.party or cause.party in parties)
    )


def write(run: Run, causes: list[Cause], out: Path, machine: str) -> int:
    """Write report.md, report.json and recording.jsonl.gz; return 0 if all was right."""
    keys = {cause.key for cause in causes}
    wanted = [cause for cause in causes if cause.wanted]
    right = [cause for cause in wanted if is_right(cause, run.named.get(cause.key))]
    others = {key: named for key, named in run.named.items() if key not in keys}
    alarms = {k: n for k, n in others.items() if n.first.severity is not Severity.INFO}
    lines = [
        f"{machine}; {len(run.snapshots)} snapshots",
        "",
        "| program | rule | named after | right | sentence |",
        "|---|---|---|---|---|",
    ]
    for cause in causes:
        named = run.named.get(cause.key)
        after = "never" if named is None else f"{delay_s(cause, named):.0f} s"
        mark = "yes" if is_right(cause, named) else "**no**" if cause.wanted else "not asked"
        said = "" if named is None else named.last.sentence
        lines.append(f"| {cause.kind} | {cause.rule} | {after} | {mark} | {said} |")
    lines += ["", f"{len(right)} of {len(wanted)} right; {len(alarms)} false alarms."]
    beside = {key: named for key, named in others.items() if key not in alarms}
    for title, group in (("False alarms", alarms), ("Information beside", beside)):
        lines += ["", f"#### {title}", ""]
        for (rule, kind), named in group.items():
            at = (named.first.found_unix_ns - run.snapshots[0].time_unix_ns) / SECOND
            lines.append(f"- {at:.0f} s, {kind or 'nobody of the run'}, {rule}: "
                         f"{named.first.sentence}")  # fmt: skip
            lines += [f"    - {evidence_text(evidence)}" for evidence in named.first.evidence]
    lines += ["", "#### Notes", "", *(f"- {note}" for note in run.notes)]
    lines += ["", *run.texts]
    (out / "report.md").write_text("\n".join(lines) + "\n")
    (out / "report.json").write_text(json.dumps(_plain(run, causes), indent=1) + "\n")
    (out / "recording.jsonl.gz").unlink(missing_ok=True)
    write_recording(out / "recording.jsonl.gz", cleaned(run.snapshots))
    print("\n".join(lines))
    return 0 if len(right) == len(wanted) and not alarms else 1


def _plain(run: Run, causes: list[Cause]) -> dict[str, Any]:
    began = run.snapshots[0].time_unix_ns if run.snapshots else 0
    return {
        "began_unix_ns": began,
        "programs": {kind: program.child.pid for kind, program in run.programs.items()},
        "causes": [
            {
                "rule": cause.rule,
                "program": cause.kind,
                "onset_s": (cause.onset_unix_ns - began) / SECOND,
                "wanted": cause.wanted,
                "named_after_s": delay_s(cause, run.named[cause.key])
                if cause.key in run.named
                else None,
            }
            for cause in causes
        ],
        "findings": [
            json.loads(dump_findings([named.first, named.last])) | {"program": kind}
            for (_, kind), named in run.named.items()
        ],
        "notes": run.notes,
    }
