"""The diagnosis: a pure function of the snapshots it has seen.

Each workload on each device is looked at every few seconds, in turn. What is usual is
learned from windows in which no rule saw harm, and only some time later, so that the
beginning of an incident is not learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpugauge.diagnosis import columns as c
from gpugauge.diagnosis.calm import is_calm
from gpugauge.diagnosis.figures import figures
from gpugauge.diagnosis.history import History
from gpugauge.diagnosis.hysteresis import RuleState
from gpugauge.diagnosis.merge import fold, merge
from gpugauge.diagnosis.onset import began_ago
from gpugauge.diagnosis.report import make_finding
from gpugauge.diagnosis.rule import Rule, Suspicion
from gpugauge.diagnosis.rules import RULES
from gpugauge.diagnosis.scene import Scene
from gpugauge.diagnosis.subject import Subject
from gpugauge.diagnosis.subjects import Subjects
from gpugauge.diagnosis.text import owner_text
from gpugauge.model.abi import Loss
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

SECOND = 1_000_000_000
TRIM_TICKS = 16
NOTES = 100
WELL_KNOWN, WELL_KNOWN_WINDOWS = 2.9, 60
WORK = (c.LAUNCHES, c.GRAPH_NODES, c.GRAPHS_UNKNOWN)
UNCOUNTED = (Loss.THREADS_FULL, Loss.COUNTS_FULL, Loss.PROCESSES_FULL, Loss.QUOTA)


class Engine:
    """Watches the snapshots of one node and says what is wrong."""

    def __init__(self, settings: Settings, rules: tuple[Rule, ...] = RULES) -> None:
        """Begin with nothing known.

        Args:
            settings: thresholds, prices, and the memory that history may take.
            rules: all shipped rules, unless a test asks for one.
        """
        self._settings = settings
        self._limits = settings.diagnosis
        self._rules = rules
        self._history = History(settings.history.bytes)
        self._subjects = Subjects(self._history, self._limits.gap_seconds)
        self._ticks = 0
        self._first_ns: int | None = None
        self._now_ns = 0
        self._uncounted = 0
        self.findings: tuple[Finding, ...] = ()
        """Open now, the most important first."""

    @property
    def history_bytes(self) -> int:
        """Memory that the history takes."""
        return self._history.bytes

    def lacked(self) -> tuple[tuple[str, str, str], ...]:
        """Return (rule, whose, what was lacking) for rules that could not tell at the last look."""
        return tuple(
            (rule, _whose(subject), state.lacked)
            for subject in self._here()
            for rule, state in subject.states.items()
            if state.lacked
        )

    def notes(self) -> tuple[str, ...]:
        """Return what was lacking, a sentence for each thing, with the rules that asked for it."""
        rules: dict[str, dict[str, None]] = {}
        for subject in self._here():
            if len(rules) >= NOTES:
                break
            lacking = [(rule, s.lacked) for rule, s in subject.states.items() if s.lacked]
            whose = _whose(subject) if lacking else ""
            for rule, what in lacking:
                rules.setdefault(f"lacked {what} ({whose})", {})[rule] = None
        return tuple(f"{', '.join(names)}: {text}" for text, names in rules.items())[:NOTES]

    def _here(self) -> Iterator[Subject]:
        """Yield those that are there now: of what has ended nothing more can be seen."""
        for subject in self._subjects.all.values():
            if subject.seen_ns == self._now_ns and not subject.has_ended:
                yield subject

    def observe(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Take the next snapshot in, and return what is open now."""
        present = self._subjects.move(snapshot)
        now_ns = self._now_ns = snapshot.time_monotonic_ns
        if self._first_ns is None:
            self._first_ns = now_ns
        due = [s for s in present if now_ns >= s.next_ns or s.next_ns - now_ns > 600 * SECOND]
        for subject in due:
            self._measure(subject, now_ns)
        due = self._not_calm(due, present, now_ns)
        if due:
            scene = Scene(
                snapshot,
                present,
                settings=self._settings,
                first_ns=self._first_ns,
                incomplete=self._incomplete(snapshot),
            )
            for subject in due:
                self._look(subject, scene)
        self._close_absent(present, now_ns)
        self.findings = self._open()
        self._ticks += 1
        if self._ticks % TRIM_TICKS == 0:
            self._history.trim()
        return self.findings

    def _not_calm(self, due: list[Subject], present: list[Subject], now_ns: int) -> list[Subject]:
        """Return those that need a full look; the others only go on being learned."""
        busy: dict[str, float] = {}
        for subject in present if due else ():
            if subject.now is not None:
                device = subject.gpu_uuid
                busy[device] = busy.get(device, 0.0) + subject.now.busy_ratio
        looks = []
        for subject in due:
            now, looked = subject.now, subject.looked
            if now is not None and looked is not None:
                now.others_busy_ratio = max(0.0, busy[subject.gpu_uuid] - now.busy_ratio)
                now.others_unseen = looked.others_unseen
            if is_calm(subject, now_ns):
                self._learn(subject, now_ns)
            else:
                looks.append(subject)
        return looks

    def _measure(self, subject: Subject, now_ns: int) -> None:
        """Compute the window of a subject."""
        if subject.next_ns == 0:
            # Spread over ticks by a number that is different for each.
            spread = subject.order % 16 / 16 * self._limits.evaluate_seconds
            subject.next_ns = now_ns + int(spread * SECOND)
        else:
            subject.next_ns = now_ns + int(self._limits.evaluate_seconds * SECOND)
        track = subject.track
        window = track.fine.window(self._limits.window_seconds) if track is not None else None
        if window is None or track is None:
            subject.now = None
            return
        host = self._subjects.host_window(subject.owner, self._limits.window_seconds)
        subject.now = figures(window, host)
        subject.recent_work_per_second = track.fine.rate(self._limits.window_seconds / 2, WORK)

    def _look(self, subject: Subject, scene: Scene) -> None:
        """Ask every rule about a subject."""
        snapshot = scene.snapshot
        now_ns = snapshot.time_monotonic_ns
        case = scene.case(subject)
        for rule in self._rules:
            state = subject.states.get(rule.id)
            if state is None:
                state = subject.states[rule.id] = RuleState()
            case.open_now = state.is_open
            verdict = rule.check(case)
            opened = state.move(verdict, now_ns, subject.row_seconds, self._limits)
            if opened:
                state.found_unix_ns = snapshot.time_unix_ns
                ago = began_ago(subject) if isinstance(verdict, Suspicion) else 0.0
                if isinstance(verdict, Suspicion) and verdict.since_seconds is not None:
                    ago = verdict.since_seconds
                state.since_unix_ns = snapshot.time_unix_ns - int(ago * SECOND)
            if isinstance(verdict, Suspicion) and state.is_open:
                state.finding = make_finding(rule, verdict, case, subject, state)
        quiet = not any(s.first_ns is not None or s.is_open for s in subject.states.values())
        # Where something could not be compared yet, the next look may already tell.
        subject.looked = subject.now if quiet and not case.why_not else None
        subject.looked_ns, subject.looked_held = now_ns, subject.totals[c.HELD]
        if quiet or not any(
            s.suspects() or (s.is_open and s.harm) for s in subject.states.values()
        ):
            if not (case.starting or case.after_gap):
                self._learn(subject, now_ns)
        else:
            subject.pending.clear()
            subject.learned_ns = now_ns

    def _learn(self, subject: Subject, now_ns: int) -> None:
        """Keep a window, and learn those that have been harmless for long enough."""
        pending = subject.pending
        if subject.now is None:
            return
        # A workload that is well known is learned on more slowly.
        every = WELL_KNOWN if subject.baseline.learned > WELL_KNOWN_WINDOWS else 0.95
        if now_ns - subject.learned_ns >= every * self._limits.window_seconds * SECOND:
            pending.append((now_ns, replace(subject.now)))
            subject.learned_ns = now_ns
        while pending and now_ns - pending[0][0] >= self._limits.quarantine_seconds * SECOND:
            subject.usual_ns, window = pending.popleft()
            subject.baseline.learn(window)

    def _incomplete(self, snapshot: Snapshot) -> tuple[str, ...]:
        lost = sum(snapshot.agent.losses.get(loss, 0) for loss in UNCOUNTED)
        more, self._uncounted = lost > self._uncounted, lost
        return ("some calls, which could not be counted",) if more and self._ticks else ()

    def _close_absent(self, present: list[Subject], now_ns: int) -> None:
        """Close findings of workloads that are gone."""
        here = {id(subject) for subject in present}
        for subject in self._subjects.all.values():
            if id(subject) not in here:
                for state in subject.states.values():
                    ago = (now_ns - state.last_ns) / SECOND
                    if state.is_open and ago >= state.keep_seconds:
                        state.opened_ns, state.first_ns, state.finding = None, None, None

    def _open(self) -> tuple[Finding, ...]:
        found: list[Finding] = []
        for subject in self._subjects.all.values():
            mine = [s.finding for s in subject.states.values() if s.finding is not None]
            if mine:
                found += merge(mine)
        return tuple(fold(found))


def _whose(subject: Subject) -> str:
    return owner_text(subject.owner, subject.command, subject.pid)
