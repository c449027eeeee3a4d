"""Every process seen at once, however its library came to it; and let go of at once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gpugauge.agent import libraries as agent_libraries
from gpugauge.agent.bugreport import REPORT_PATH
from gpugauge.agent.lock import NodeLock
from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.pauses import OFF
from gpugauge.ebpf.sideband import Sideband
from gpugauge.errors import UnavailableError
from gpugauge.model.abi import Loss, Slot
from gpugauge.model.workload import Owner, Scope
from tests.k8s.fakes.containers import run_container
from tests.linux.agents import AgentProcess, agent, metrics
from tests.linux.test_agent import breakpoints
from tests.linux.tracing import VENDOR, OwnMachine, Traced
from tests.linux.watching import Watching, eventually, watching

CALLS = 7
LONG = (pytest.mark.long, pytest.mark.timeout(900))
USER = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
library.cuInit(0)
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        library.cuCtxSynchronize()
    print("done", flush=True)
"""


class User:
    """A process that maps a library and calls when it is told to."""

    def __init__(self, it: Traced, path: Path, *prefix: str) -> None:
        command = [*prefix, sys.executable, "-S", "-c", USER, str(path)]
        self.child = it.machine.start(command, stdin=subprocess.PIPE)
        self.pid = self.child.pid
        self.expect("ready")

    def expect(self, line: str) -> None:
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == f"{line}\n"

    def call(self, times: int) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{times}\n")
        self.child.stdin.flush()
        self.expect("done")

    def end(self) -> None:
        self.child.kill()
        with self.child:
            self.child.communicate()


@contextmanager
def users(it: Traced, *paths: Path) -> Iterator[list[User]]:
    with ExitStack() as stack:
        started = []
        for path in paths:
            user = User(it, path)
            stack.callback(user.end)
            started.append(user)
        yield started


def synchronized(watched: Watching, *pids: int) -> int:
    watched.tick()
    return watched.it.counted(pids or None).calls[Slot.SYNCHRONIZE]


def copies(it: Traced, *names: str) -> list[Path]:
    """Copies of the library in folders of their own."""
    made = []
    for name in names:
        path = it.machine.state.parent / name / it.machine.library.name
        path.parent.mkdir()
        shutil.copy(it.machine.library, path)
        made.append(path)
    return made


@contextmanager
def overlays(folder: Path, lower: Path, *names: str) -> Iterator[list[Path]]:
    """Overlay mounts over one lower folder; unmounting a busy one is a failure."""
    mounted = []
    try:
        for name in names:
            for part in ("upper", "work", "root"):
                (folder / name / part).mkdir(parents=True)
            at = folder / name
            options = f"lowerdir={lower},upperdir={at / 'upper'},workdir={at / 'work'}"
            command = ["mount", "-t", "overlay", "overlay", "-o", options, at / "root"]
            subprocess.run(command, check=True)
            mounted.append(at / "root")
        yield mounted
    finally:
        for each in mounted:
            subprocess.run(["umount", "--lazy", "--quiet", each], check=False)


def test_two_overlay_mounts_over_one_file_count_once(tmp_path: Path) -> None:
    """They are two inodes in maps and stat, and one to Linux's uprobes."""
    with ExitStack() as stack:
        roots: list[Path] = []

        def files(it: Traced) -> list[Path]:
            lower = it.machine.library.parent
            roots.extend(stack.enter_context(overlays(tmp_path, lower, "a", "b")))
            return [root / it.machine.library.name for root in roots]

        with watching(tmp_path, files=files) as watched:
            it = watched.it
            one, two = (root / it.machine.library.name for root in roots)
            with users(it, one) as (first,):
                watched.until_attached(1)
                with users(it, two) as (second,):
                    first.call(101)
                    second.call(23)
                    assert synchronized(watched) == 124
                    eventually(lambda: watched.libraries.unprobed() == {})
                    assert watched.attached() == 1
                    assert it.losses() == {}
                    first.end()
                    # The mount it went through can go at once; the other goes on.
                    eventually(lambda: unmounted(roots[0]))
                    watched.until_attached(1)
                    second.call(5)
                    assert synchronized(watched) >= 124
                eventually(lambda: unmounted(roots[1]))
            assert watched.attached() == 0


def unmounted(root: Path) -> bool:
    return subprocess.run(["umount", root], capture_output=True, check=False).returncode == 0


def test_own_copies_and_deleted_files(tmp_path: Path) -> None:
    """Each a library of its own; what a process calls before its probes is marked."""
    paths: list[Path] = []

    def files(it: Traced) -> list[Path]:
        paths.extend(copies(it, "a", "b", "c"))
        return paths

    with watching(tmp_path, files=files) as watched, users(watched.it, *paths) as started:
        paths[1].unlink()
        watched.until_attached(3)
        for user, times in zip(started, (3, 5, 7), strict=True):
            user.call(times)
        watched.tick()
        for user, times in zip(started, (3, 5, 7), strict=True):
            assert synchronized(watched, user.pid) == times
            assert not watched.libraries.origins.complete(user.pid)
        with users(watched.it, paths[0]) as (late,):
            late.call(11)
            assert synchronized(watched, late.pid) == 11
            assert watched.libraries.origins.complete(late.pid)
        for user in started:
            user.end()
        eventually(lambda: watched.attached() == 0)


def test_a_bind_mount_of_a_known_file(tmp_path: Path) -> None:
    """Its first call counts: it is the host's file, under another path."""
    pod = tmp_path / "pod"
    pod.mkdir()
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        assert watched.attached() == 1
        subprocess.run(["mount", "--bind", it.machine.library.parent, pod], check=True)
        try:
            with users(it, pod / it.machine.library.name) as (user,):
                user.call(13)
                assert synchronized(watched, user.pid) == 13
                assert watched.attached() == 1
                assert it.counted([user.pid]).calls == it.truth([user.pid]).calls
        finally:
            subprocess.run(["umount", pod], check=True)


def test_a_container_of_runc(tmp_path: Path) -> None:
    """It has a copy of its own in its image, and ends without waiting for us."""
    paths: list[Path] = []

    def files(it: Traced) -> list[Path]:
        paths.extend(copies(it, "image"))
        return paths

    with watching(tmp_path, files=files) as watched:
        it = watched.it
        go = it.machine.state.parent / "go"
        script = (
            "import ctypes, os, time\n"
            f"library = ctypes.CDLL({str(paths[0])!r})\n"
            "library.cuInit(0)\n"
            f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
            "for _ in range(19): library.cuCtxSynchronize()\n"
            "time.sleep(60)\n"
        )
        environment = {k: v for k, v in it.machine.environment.items() if k.startswith("GPUGAUGE")}
        container = run_container(
            tmp_path / "bundle",
            "7" * 64,
            "/gpugauge-test",
            [os.path.realpath(sys.executable), "-S", "-c", script],
            mounts=[paths[0].parent, Path(sys.base_prefix)],
            writable=[it.machine.state.parent],
            environment=environment,
        )
        try:
            watched.until_attached(1)
            go.touch()
            eventually(lambda: synchronized(watched) == 19)
            assert it.losses() == {}
        finally:
            container.delete()
        eventually(lambda: watched.attached() == 0)


@pytest.mark.parametrize("processes", [101, pytest.param(1000, marks=LONG)])
def test_short_processes_are_all_counted(tmp_path: Path, hazards: Path, processes: int) -> None:
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        loop = 'for i in $(seq "$0"); do "$@" > /dev/null; [ $? = 17 ] || exit 1; done'
        command = ["sh", "-c", loop, str(processes), str(hazards), str(it.machine.library)]
        with it.machine.start([*command, "plain", str(CALLS)]) as child:
            while child.poll() is None:
                watched.tick()
                it.reap_ended()
                time.sleep(0.05)
            assert child.returncode == 0
        watched.tick()
        (series,) = (s for s in watched.snapshot.series if Slot.SYNCHRONIZE in s.operations)
        assert series.operations[Slot.SYNCHRONIZE].calls == processes * CALLS
        assert it.losses() == {}


def test_a_driver_that_comes_while_the_agent_runs(tmp_path: Path) -> None:
    paths: list[Path] = []

    def files(it: Traced) -> list[Path]:
        paths.extend(copies(it, "later"))
        return paths

    with watching(tmp_path, files=files) as watched:
        assert watched.attached() == 0
        assert watched.libraries.ready
        with users(watched.it, paths[0]) as (user,):
            watched.until_attached(1)
            user.call(17)
            assert synchronized(watched, user.pid) == 17


def lost_is_told(libraries: agent_libraries.Libraries) -> bool:
    """Linux tells how many it lost with the next record that fits: on each CPU there is one."""
    for cpu in os.sched_getaffinity(0):
        subprocess.run(["taskset", "-c", str(cpu), "true"], check=True)
    return libraries.sideband_lost > 0


def test_lost_records_of_mappings_are_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer overflows while nobody reads; then everything is looked at."""
    monkeypatch.setattr(agent_libraries, "Sideband", partial(Sideband, pages=1))
    paths: list[Path] = []

    def files(it: Traced) -> list[Path]:
        paths.extend(copies(it, "a"))
        return paths

    with watching(tmp_path, files=files, scan_seconds=60) as watched:
        lock = watched.libraries._lock
        with lock, users(watched.it, paths[0]) as (user,):  # nobody reads on
            subprocess.run(["sh", "-c", "for i in $(seq 300); do /bin/true; done"], check=True)
            watched.libraries._lock.release()
            try:
                eventually(lambda: lost_is_told(watched.libraries))
                watched.until_attached(1)
                user.call(3)
                assert synchronized(watched, user.pid) == 3
            finally:
                watched.libraries._lock.acquire()


def test_the_off_switch_takes_every_probe_off(tmp_path: Path) -> None:
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        with users(it, it.machine.library) as (user,):
            user.call(5)
            watched.libraries.turn(on=False)
            eventually(lambda: watched.attached() == 0)
            assert breakpoints(it.machine) == 0
            user.call(31)
            watched.tick()
            eventually(lambda: watched.libraries.unprobed() == {OFF: 1})
            # The links are gone a moment before it is noted who used them.
            eventually(lambda: watched.libraries.interrupted() == {user.pid})
            watched.libraries.turn(on=True)
            watched.until_attached(1)
            user.call(3)
            assert synchronized(watched, user.pid) == 5 + 3
            assert not watched.libraries.origins.complete(user.pid)


def test_a_wait_under_way_when_probes_go_stops_to_count(tmp_path: Path) -> None:
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        with users(it, it.machine.library) as (user,):
            it.machine.control.hang("cuCtxSynchronize")
            assert user.child.stdin is not None
            user.child.stdin.write("1\n")
            user.child.stdin.flush()
            eventually(lambda: waits(watched, user.pid))
            watched.libraries.turn(on=False)
            eventually(lambda: watched.attached() == 0 and bool(watched.libraries.interrupted()))
            assert not waits(watched, user.pid)
            before = blocked_wall(watched, user.pid)
            assert before > 0
            time.sleep(0.05)
            assert blocked_wall(watched, user.pid) == before
            it.machine.control.heal("cuCtxSynchronize")
            user.expect("done")
            watched.libraries.turn(on=True)
            watched.until_attached(1)
            user.call(3)
            assert not waits(watched, user.pid)
            assert it.losses() == {}


def waits(watched: Watching, pid: int) -> bool:
    watched.tick()
    return pid in open_pids(watched)


def open_pids(watched: Watching) -> set[int]:
    """Processes with a thread inside a call that blocks."""
    reader = watched.it.reader
    slots = reader.read().slots.values()
    at = watched.it.tracer.loaded.layout.offset("process", "blocked_word")
    tgid = watched.it.tracer.loaded.layout.offset("process", "tgid")
    return {
        int.from_bytes(slot[tgid : tgid + 4], "little")
        for slot in slots
        if int.from_bytes(slot[at : at + 2], "little")
    }


def blocked_wall(watched: Watching, pid: int) -> int:
    return watched.it.process(pid).blocked_wall_ns


def test_a_checkpoint_takes_the_probes_off_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuda-checkpoint locks first; without probes nobody sees its unlock, so time ends it."""
    monkeypatch.setattr(agent_libraries, "OFF_SECONDS", 3.0)
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        with users(it, it.machine.library) as (user,):
            user.call(5)
            watched.tick()
            it.machine.script(
                "import ctypes, os\n"
                "library = ctypes.CDLL(os.environ['GPUGAUGE_SIM_LIBRARY'])\n"
                f"library.cuCheckpointProcessLock({user.pid}, None)\n"
            )
            watched.tick()
            eventually(lambda: watched.attached() == 0)
            assert breakpoints(it.machine) == 0
            watched.until_attached(1)
            user.call(7)
            assert synchronized(watched, user.pid) == 12


def test_calls_of_one_that_opted_out_are_not_counted(tmp_path: Path) -> None:
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        watched.owner = Owner(Scope.POD, "team", "private", traced=False)
        with users(it, it.machine.library) as (user,):
            user.call(5)
            watched.tick()
            assert watched.snapshot.processes == ()
            (process,) = it.state.processes.by_number.values()
            it.reader.set_untraced(process.slot_index)
            user.call(31)
            assert synchronized(watched) <= 5
            assert watched.snapshot.series == ()
            user.end()
            watched.tick()
            assert it.reap_ended() == 1


def test_one_agent_a_node(tmp_path: Path) -> None:
    paths = (str(tmp_path / "lock"),)
    refused = pytest.raises(UnavailableError, match=f"pid {os.getpid()}")
    with NodeLock(paths), refused, NodeLock(paths):
        pass
    with NodeLock(paths):
        pass


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=LONG)])
def test_killed_at_any_moment_it_leaves_nothing_attached(tmp_path: Path, kills: int) -> None:
    """And what it traced goes on."""
    machine = OwnMachine(tmp_path)
    command = [sys.executable, "-S", "-c", USER, str(machine.library)]
    with machine.start(command, stdin=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        user.stdout.readline()
        moments = random.Random(kills)
        for _ in range(kills):
            it = AgentProcess(tmp_path, machine)
            user.stdin.write("101\n")
            user.stdin.flush()
            time.sleep(moments.uniform(0.0, 3.0))
            it.end(signal.SIGKILL)
            assert user.stdout.readline() == "done\n"
            eventually(lambda: breakpoints(machine) == 0)
        user.kill()
    machine.close()


BPFTRACE = shutil.which("bpftrace")


def test_beside_bpftrace_on_the_same_functions(tmp_path: Path) -> None:
    """Both count right, whoever came first and whoever leaves first."""
    assert BPFTRACE, "this test needs bpftrace: apt-get install bpftrace"
    with watching(tmp_path, files=lambda it: [it.machine.library], host=True) as watched:
        it = watched.it
        path = it.machine.library
        program = (
            f"uprobe:{path}:cuCtxSynchronize {{ @in = count(); }} "
            f"uretprobe:{path}:cuCtxSynchronize {{ @out = count(); }} "
            'BEGIN { printf("ready\\n"); }'
        )
        with users(it, path) as (user,):
            user.call(3)
            with subprocess.Popen(
                [BPFTRACE, "-e", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as other:
                assert other.stdout is not None
                lines = iter(other.stdout.readline, "")
                assert any("ready" in line for line in lines), other.communicate()
                user.call(101)
                assert synchronized(watched, user.pid) == 104
                other.send_signal(signal.SIGINT)
                out, _ = other.communicate(timeout=30)
                assert "@in: 101" in out
                assert "@out: 101" in out
            user.call(7)
            assert synchronized(watched, user.pid) == 111
            assert it.losses().get(Loss.DUPLICATE_HITS, 0) == 0


def test_two_links_to_one_file_end_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary failed to tell: the hits do, and the younger link goes."""
    monkeypatch.setattr("gpugauge.discovery.catalogue.Catalogue._twins", lambda *_: [])
    with ExitStack() as stack:
        roots: list[Path] = []

        def files(it: Traced) -> list[Path]:
            lower = it.machine.library.parent
            roots.extend(stack.enter_context(overlays(tmp_path, lower, "a", "b")))
            return [root / it.machine.library.name for root in roots]

        with watching(tmp_path, files=files) as watched:
            it = watched.it
            inspect = watched.libraries._inspector.inspect

            def unprobed(*args: object, **more: object) -> object:
                return replace(inspect(*args, **more), probed=False)  # type: ignore[arg-type]

            monkeypatch.setattr(watched.libraries._inspector, "inspect", unprobed)
            with users(it, *(root / it.machine.library.name for root in roots)) as (one, two):
                watched.until_attached(2)
                one.call(101)
                watched.tick()
                watched.until_attached(1)
                two.call(23)
                assert synchronized(watched) == 124
                assert it.losses()[Loss.DUPLICATE_HITS] >= 101


def test_signals_switch_the_agent_off_and_on(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine) as it:
        assert breakpoints(machine) == 2
        it.child.send_signal(signal.SIGUSR1)
        eventually(lambda: breakpoints(machine) == 0)
        machine.workload("training", steps=3)
        it.child.send_signal(signal.SIGUSR2)
        eventually(lambda: breakpoints(machine) == 2)
        (line,) = machine.workload("training", steps=5)
        it.next_snapshot()
        counted = metrics(it.get("/metrics"), "gpugauge_launches_total").values()
        assert sum(counted) == line["counts"]["cuLaunchKernel"]
    machine.close()


def test_after_a_restart_counts_go_on_and_say_what_they_lack(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    command = [sys.executable, "-S", "-c", USER, str(machine.library)]
    with machine.start(command, stdin=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        for incomplete in (1, 1):
            user.stdout.readline()
            with agent(tmp_path, machine) as it:
                user.stdin.write("7\n")
                user.stdin.flush()
                found = it.next_snapshot()
                assert [p["pid"] for p in found["processes"]] in ([], [user.pid])
                assert found["agent"]["incomplete_processes"] == incomplete
        user.kill()
    machine.close()


def test_a_bug_report_of_a_running_agent(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine) as it:
        it.next_snapshot()
        report = json.loads(it.get(REPORT_PATH))
        (library,) = report["libraries"]
        assert library["simulated"]
        assert report["health"]["ready"]
        assert report["settings"]["attach"]["mode"] == "auto"
        assert any("serving on port" in line for line in report["log"])
        assert str(tmp_path) not in "\n".join(report["log"])
    machine.close()


def test_a_waiting_child_serves_one_file(tmp_path: Path) -> None:
    """It is started beforehand, and no other file ever meets it."""
    machine = OwnMachine(tmp_path)
    inspector = Inspector(VENDOR)
    plain = inspector.inspect(str(machine.library))
    try:
        for kill in (False, True):
            inspector.prepare()
            inspector.prepare()  # one is enough
            eventually(lambda: len(children()) == 1)  # its name comes just after its start
            (waiting,) = children()
            if kill:
                os.kill(waiting, signal.SIGKILL)
                os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT)
            assert inspector.inspect(str(machine.library)) == plain
            assert children() == set()
        inspector.prepare()
    finally:
        inspector.close()
    inspector.prepare()
    assert children() == set()
    machine.close()


def children() -> set[int]:
    """Children of this process that inspect files."""
    found = set()
    for name in Path("/proc/self/task").iterdir():
        for pid in (name / "children").read_text().split():
            if b"gpugauge.discovery.child" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(int(pid))
    return found
