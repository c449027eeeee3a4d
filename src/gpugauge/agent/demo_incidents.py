"""The demo's incidents: each is made to happen, and the diagnosis names it.

Times are shorter than the shipped ones, so that each takes seconds: what is usual is learned
in a few windows of 2 s, and a condition is a finding after one second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gpugauge.agent.agent import Agent
from gpugauge.agent.demo_container import Container
from gpugauge.diagnosis import Engine
from gpugauge.errors import UnavailableError
from gpugauge.model.finding import Finding
from gpugauge.settings import Settings

TICK_SECONDS = 0.25
LEARN_SECONDS, NAME_SECONDS = 40.0, 30.0
"""At most, on a machine that does much else; usually 8 to 20 s, and 2 to 8 s."""
PROGRAM = "sim.workloads.changing"
QUOTA_CORES = 0.05
NOT_KNOWN = ("past their start", "to learn what is usual", "a whole window")
"""What rules lack of a program that is new."""
Say = Callable[[str], None]
Tell = Callable[[Finding], str]
"""A finding as text, for a person."""


@dataclass(frozen=True)
class Incident:
    """Something that goes wrong with a program."""

    rule: str
    title: str
    begins: dict[str, float] = field(default_factory=dict)
    """How the program is started."""
    changes: dict[str, float] = field(default_factory=dict)
    """What it is told when it is known."""
    neighbour: dict[str, float] = field(default_factory=dict)
    """A second program, started when the first is known."""
    quota_cores: float | None = None
    """A CPU limit, set when the program is known."""
    word: str = ""
    """What the sentence must hold: on a busy machine there are other causes as well."""
    windows: int = 3
    """Of 2 s, that must be known before something is compared with them."""
    quarantine_seconds: float = 1.0


INCIDENTS = (
    Incident(
        "added_synchronization",
        "a training loop begins to log tensors",
        changes={"reads": 8, "read_bytes": 4 << 20},
    ),
    Incident(
        "noisy_neighbour",
        "a batch job comes to the same GPU",
        neighbour={"launches": 100, "launch_us": 4000},
    ),
    Incident(
        "cpu_starvation",
        f"the CPU limit of a training job becomes {QUOTA_CORES} cores",
        begins={"cpu_ms": 6, "rest_ms": 0, "launches": 10},
        quota_cores=QUOTA_CORES,
        word="quota",
        # The CPU side is read every five seconds: until it was read twice it is not known.
        windows=6,
        quarantine_seconds=6.0,
    ),
)


def short(settings: Settings, incident: Incident) -> Settings:
    """Return settings with the demo's times."""
    diagnosis = replace(
        settings.diagnosis,
        window_seconds=2.0,
        evaluate_seconds=TICK_SECONDS,
        confirm_seconds=1.0,
        startup_seconds=1.0,
        baseline_windows=incident.windows,
        quarantine_seconds=incident.quarantine_seconds,
        cpu_starvation_pause_seconds=0.0,
    )
    return replace(settings, diagnosis=diagnosis)


class Incidents:
    """Lets incidents happen beside an agent."""

    def __init__(
        self, agent: Agent, settings: Settings, environment: dict[str, str], say: Say, tell: Tell
    ) -> None:
        """Take the running agent, and how to speak to the person at the terminal."""
        self._agent = agent
        self._settings = settings
        self._environment = environment
        self._say = say
        self._tell = tell

    def show(self) -> bool:
        """Let all of them happen, one after the other; False if one was not named."""
        named = True
        for number, incident in enumerate(INCIDENTS, 1):
            self._say(f"\nincident {number} of {len(INCIDENTS)}: {incident.title}")
            try:
                named &= self._happen(incident)
            except UnavailableError as error:
                self._say(f"not shown: {error}")
                named = False
        return named

    def _happen(self, incident: Incident) -> bool:
        engine = Engine(short(self._settings, incident))
        with (
            self._container(incident) as container,
            self._program(incident.begins, container) as victim,
        ):
            mark = container.id[:12] if container is not None else f"({victim.pid})"
            if not self._wait(engine, LEARN_SECONDS, _known(engine, mark)):
                self._say("not shown: this machine is too busy to learn what is usual.")
                return False
            self._change(incident, victim, container)
            with self._neighbour(incident):
                return self._is_named(engine, incident, victim.pid)

    def _is_named(self, engine: Engine, incident: Incident, pid: int) -> bool:
        rule, began = incident.rule, time.monotonic()

        def found() -> Finding | None:
            mine = (f for f in engine.findings if f.rule == rule and pid in f.pids)
            return next((f for f in mine if incident.word in f.sentence), None)

        self._wait(engine, NAME_SECONDS, lambda: found() is not None)
        finding = found()
        if finding is None:
            said = [each.sentence for each in engine.findings]
            lacked = [f"lacked {what}" for name, _, what in engine.lacked() if name == rule]
            self._say("\n".join((f"NOT NAMED: {rule}", *said, *lacked)))
            return False
        self._say(f"named {time.monotonic() - began:.0f} s later:\n")
        self._say(self._tell(finding))
        return True

    def _wait(self, engine: Engine, seconds: float, condition: Callable[[], bool]) -> bool:
        """Tick until a state is there."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(TICK_SECONDS)
            self._agent.take_events()
            engine.observe(self._agent.tick())
            if condition():
                return True
        return False

    def _change(
        self, incident: Incident, victim: subprocess.Popen[str], container: Container | None
    ) -> None:
        if incident.changes and victim.stdin is not None:
            victim.stdin.write(json.dumps(incident.changes) + "\n")
            victim.stdin.flush()
        if container is not None:
            try:
                container.limit_cpu(incident.quota_cores)
            except OSError as error:
                raise _no_cgroups(error) from error

    @contextmanager
    def _container(self, incident: Incident) -> Iterator[Container | None]:
        if incident.quota_cores is None:
            yield None
            return
        try:
            made = Container("gpugauge-demo")
        except OSError as error:
            raise _no_cgroups(error) from error
        try:
            yield made
        finally:
            made.remove()

    @contextmanager
    def _neighbour(self, incident: Incident) -> Iterator[None]:
        if not incident.neighbour:
            yield
            return
        with self._program(incident.neighbour, None):
            yield

    @contextmanager
    def _program(
        self, parameters: dict[str, float], container: Container | None
    ) -> Iterator[subprocess.Popen[str]]:
        """Start the program, and end it afterwards.

        Raises:
            UnavailableError: It did not start.
        """
        words = [f"{name}={value}" for name, value in parameters.items()]
        command = [sys.executable, "-m", PROGRAM, *words]
        if container is not None:
            command = container.command(command)
        child = subprocess.Popen(
            command, env=self._environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            if child.stdout is None or not child.stdout.readline():
                _, errors = child.communicate()
                last = errors.strip().splitlines()[-1:] or ["no output"]
                raise UnavailableError(f"The program did not start: {last[0]}", "Try again.")
            yield child
        finally:
            child.kill()
            child.communicate()


def _known(engine: Engine, mark: str) -> Callable[[], bool]:
    """Return what tells whether a program is known well enough to be compared."""
    met = False

    def is_known() -> bool:
        nonlocal met
        lacked = [what for _, whose, what in engine.lacked() if mark in whose]
        unknown = any(words in what for words in NOT_KNOWN for what in lacked)
        met |= unknown
        return met and not unknown

    return is_known


def _no_cgroups(error: OSError) -> UnavailableError:
    return UnavailableError(
        f"No cgroup with a CPU limit can be made here ({error.strerror or error}).",
        "Run the demo on the host, or where /sys/fs/cgroup can be written.",
    )
