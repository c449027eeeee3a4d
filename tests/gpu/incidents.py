"""Incidents on a real GPU, diagnosed by an agent with the shipped defaults.

Usage (root, with gpugauge and its dependencies on the path):
    python3 -m tests.gpu.incidents --out FOLDER [--only states,added] [--simulated]

All programs share the GPU. What is usual is learned once for all; then things go wrong,
one set after the other. One setting differs from the shipped ones, so that the run ends in
minutes: an idle holder is named after 130 s, not half an hour.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.gpu.incident_machine import Place, RealGpu, Simulated
from tests.gpu.incident_report import Cause, cause, write
from tests.gpu.incident_run import Run
from tests.gpu.validate import machine

IDLE_SECONDS = 130
STARTUP_SECONDS = 60
"""By the shipped defaults nothing is told of a process so young."""
HANG_SECONDS = 120
"""By the shipped defaults; the program works for some seconds before."""
EARLY = {"states": ("tiny", "pageable"), "waits": ("hang", "idle")}
LATE = {"added": ("logged", "normed", "starved", "healthy"), "neighbour": ("victim", "batch")}
PARTS = (*EARLY, *LATE)
QUOTA_CORES = 0.4
WITHIN_S = 50.0
"""Waited for a finding: longer than the goal of two scrapes, so that a late one is told from
a missed one."""
LEARN_S = 200.0
EVALUATION_S = 10.0


def play(run: Run, causes: list[Cause], only: frozenset[str]) -> None:
    """Let things go wrong, one after the other."""
    early = [k for name, kinds in EARLY.items() if name in only for k in kinds]
    for kind in early:
        run.start(kind)
    run.wait("the first programs to work", lambda: all(run.programs[k].ready for k in early), 60)
    states, waits = [], []
    if "states" in only:
        for rule, kind in (("launch_bound", "tiny"), ("transfer_bound", "pageable")):
            started = run.programs[kind].started_unix_ns
            states.append(cause(rule, kind, started, after_s=STARTUP_SECONDS))
    if "waits" in only:
        waits = [
            cause("hang", "hang", run.programs["hang"].ready_unix_ns, after_s=HANG_SECONDS),
            cause("idle_holder", "idle", run.programs["idle"].ready_unix_ns, after_s=IDLE_SECONDS),
        ]
    causes += states + waits
    if states:
        time.sleep(35)  # the others' import takes longer than naming the states from here on
    late = [k for name, kinds in LATE.items() if name in only for k in kinds]
    for kind in late:
        run.start(kind)
    if states:
        run.wait("the states", lambda: run.has(*(e.key for e in states)), 70)
        run.diagnose("launch-bound and transfer-bound")
        run.end("tiny", "pageable")
    if waits:
        run.wait("the hang and the idle holder", lambda: run.has(*(e.key for e in waits)), 150)
        run.diagnose("hang and idle holder")
        run.end("hang", "idle")
    if not late:
        return
    if "batch" in late:  # it holds memory until it is told to work
        causes.append(cause("idle_holder", "batch", time.time_ns(), wanted=False))
    trainers = [kind for kind in late if kind != "batch"]
    run.wait("what is usual", lambda: not run.learns(*trainers), LEARN_S)
    time.sleep(3)
    if "added" in only:
        added_and_starved(run, causes)
    if "neighbour" in only:
        neighbour(run, causes)


def added_and_starved(run: Run, causes: list[Cause]) -> None:
    """Two programs begin to log, one loses its CPU, and a healthy one evaluates and saves."""
    mine = [
        cause("added_synchronization", "logged", run.tell("logged", log=1)),
        cause("added_synchronization", "normed", run.tell("normed", norms=1)),
    ]
    container = run.programs["starved"].container
    if container is None:
        run.notes.append("CPU quota not run: this machine gives no cgroups")
    else:
        try:
            run.notes.append(f"quota of {QUOTA_CORES} cores by {container.limit_cpu(QUOTA_CORES)}")
            mine.append(cause("cpu_starvation", "starved", time.time_ns(),
                                 words=(f"quota of {QUOTA_CORES}",)))  # fmt: skip
        except OSError as error:
            run.notes.append(f"CPU quota not run: {error}")
    causes += mine
    run.tell("healthy", evaluate=1)
    time.sleep(EVALUATION_S)
    run.tell("healthy", evaluate=0)
    time.sleep(5)
    run.tell("healthy", checkpoint=1)
    time.sleep(1.5)
    run.tell("healthy", checkpoint=0)
    run.wait("added synchronization and CPU starvation",
             lambda: run.has(*(e.key for e in mine)), WITHIN_S - EVALUATION_S)  # fmt: skip
    run.diagnose("added synchronization and CPU starvation")
    run.tell("logged", log=0)
    run.tell("normed", norms=0)
    if container is not None:
        container.limit_cpu(None)


def neighbour(run: Run, causes: list[Cause]) -> None:
    """The healthy program ends, and a batch job begins to work beside the victim."""
    others = [kind for kind in ("logged", "normed", "starved") if kind in run.programs]
    if others:
        run.end("healthy")
    onset = run.tell("batch", work=1)
    mine = cause("noisy_neighbour", "victim", onset,
                    party=run.programs["batch"].child.pid)  # fmt: skip
    causes.append(mine)
    # Every program on the device is slowed: of these it is true as well.
    for kind in others:
        causes.append(cause("noisy_neighbour", kind, onset, wanted=False))
    run.wait("the noisy neighbour", lambda: run.has(mine.key), WITHIN_S)
    run.diagnose("noisy neighbour")


def main() -> int:
    """Run it, and write what was named, what was missed and what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--simulated", action="store_true", help="stand-ins, without a GPU")
    given, flags = parser.parse_known_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place: Place = Simulated(Path(folder)) if given.simulated else RealGpu()
        run = Run(place, given.out, f"--diagnosis-idle-holder-seconds={IDLE_SECONDS}", *flags)
        causes: list[Cause] = []
        began = time.monotonic()
        try:
            _guarded(run, lambda: play(run, causes, frozenset(given.only.split(","))))
        finally:
            run.close()
            place.close()
        print(f"# {time.monotonic() - began:.0f} s", flush=True)
        return write(run, causes, given.out, machine())


def _guarded(run: Run, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:
        run.notes.append(f"the run broke off:\n{traceback.format_exc()}")


if __name__ == "__main__":
    sys.exit(main())
