"""The whole agent by command line, on the simulated driver."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpugauge.cli import main
from gpugauge.codec.snapshot import load_snapshot
from gpugauge.ebpf import features
from gpugauge.ebpf.features import Feature
from tests.linux.agents import AgentProcess, agent, metrics
from tests.linux.tracing import MODES, OwnMachine, Session, Traced

PROMTOOL = Path(__file__).resolve().parents[2] / ".tools" / "bin" / "promtool"
PROBED = """
import ctypes, os
library = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
names = ("cuLaunchKernel", "cuCtxSynchronize_v2")
at = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
shape = [ctypes.string_at(each, 16) for each in at]
print('{"breakpoints": %d}' % sum(b"\\xcc" in each for each in shape))
"""


def breakpoints(machine: OwnMachine) -> int:
    """Return how many of two functions have a breakpoint in a new process."""
    (line,) = machine.script(PROBED)
    return int(line["breakpoints"])


def total(found: dict[tuple[tuple[str, str], ...], float], **labels: str) -> float:
    """Return the sum over samples with these labels."""
    return sum(v for key, v in found.items() if labels.items() <= dict(key).items())


@pytest.mark.parametrize("mode", MODES)
def test_counts_equal_the_oracle_and_sigterm_ends_it(tmp_path: Path, mode: str) -> None:
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine, "--attach-mode", mode) as it:
        (line,) = machine.workload("training", steps=37, stall_us=20_000)
        (inference,) = machine.workload("inference")
        graphs = machine.workload("graphs")[0]
        it.next_snapshot()
        text = it.get("/metrics")
        mine, its = line["counts"], inference["counts"]
        launched = metrics(text, "gpugauge_launches_total")
        demand = 1  # of graphs: the warm-up; what it captured is no demand
        expected = mine["cuLaunchKernel"] + its["cuLaunchKernel"] + demand
        assert total(launched) == expected
        assert total(metrics(text, "gpugauge_graph_launches_total")) == 37
        # The core set of perf mode has no room for what makes graphs: their nodes are unknown.
        known = graphs["graph_nodes"] if mode != "perf" else 0
        assert total(metrics(text, "gpugauge_graph_kernels_total")) == known
        unknown = total(metrics(text, "gpugauge_graph_launches_unknown_total"))
        assert unknown == (37 if mode == "perf" else 0)
        copied = metrics(text, "gpugauge_copy_bytes_total")
        rows = machine.oracle.truths()
        for direction, field in (
            ("htod", "bytes_htod"),
            ("dtoh", "bytes_dtoh"),
        ):
            assert total(copied, direction=direction) == sum(row.values[field] for row in rows)
        syncs = sum(
            each["counts"].get(name, 0)
            for each in (line, inference, graphs)
            for name in ("cuStreamSynchronize", "cuCtxSynchronize_v2")
        )
        assert total(metrics(text, "gpugauge_sync_calls_total")) == syncs
        assert total(metrics(text, "gpugauge_agent_lost_updates_total")) == 0
        assert {dict(key)["simulated"] for key in launched} == {"true"}
        check_metrics(text)
        snapshot = it.snapshot()
        assert snapshot["simulated"] is True
        assert snapshot["agent"]["attach_mode"] == mode
        assert breakpoints(machine) == 2
        took = it.end()
        assert it.child.returncode == 0, it.text
        assert "Traceback" not in it.text
    assert took < 2, f"SIGTERM took {took:.2f} s"
    wait_until_off(machine)


def wait_until_off(machine: OwnMachine) -> None:
    """Wait until no probe is in the library: Linux takes perf events off one by one."""
    deadline = time.monotonic() + 40
    while breakpoints(machine) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert breakpoints(machine) == 0


def test_a_gpu_that_nobody_uses_has_a_name(tmp_path: Path) -> None:
    """Who pays for idle GPUs looks for those that no process ever opened."""
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine) as it:
        found: dict[tuple[tuple[str, str], ...], float] = {}
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            found = metrics(it.get("/metrics"), "gpugauge_device_info")
            time.sleep(0.05)
        (labels,) = map(dict, found)
        assert labels["gpu_uuid"] == labels["UUID"] != ""
        assert set(metrics(it.get("/metrics"), "gpugauge_device_processes").values()) == {0.0}


def check_metrics(text: str) -> None:
    """Hold the exposition against promtool, which `make tools` fetches."""
    assert PROMTOOL.exists(), "run `make tools`"
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_devices_are_named(tmp_path: Path) -> None:
    """A process that lives as NVML is asked has its device by UUID, and what NVML says it holds."""
    machine = OwnMachine(tmp_path, device_count=3)
    with agent(tmp_path, machine, "--tick-seconds", "0.2") as it:
        traced = Traced.__new__(Traced)
        traced.machine = machine
        with Session(traced) as session:
            session.run("made = driver.allocate(5 << 20); driver.launch(function)")
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                (process,) = it.next_snapshot()["processes"]
                (device,) = process["devices"]
                held = machine.oracle.truth(session.pid).held_bytes
                if device["gpu_uuid"] != "unknown" and device["memory_held_bytes"] == held:
                    break
            assert process["pid"] == session.pid
            assert device["gpu_uuid"] == f"GPU-{machine.oracle.devices()[0].uuid}".replace(
                "GPU-GPU-", "GPU-"
            )
            assert device["memory_held_bytes"] == held
            assert device["claimed"] is False
        assert it.snapshot()["agent"]["nvml_error"] == ""


def test_nothing_stays_attached_after_sigkill(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    for mode in MODES:
        with agent(tmp_path, machine, "--attach-mode", mode) as it:
            assert breakpoints(machine) == 2
            it.end(signal.SIGKILL)
            wait_until_off(machine)
    machine.workload("training", steps=3)


def test_a_second_agent_refuses(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine) as it:
        of_agent = f"/proc/{it.child.pid}"
        # Its root too: a name space alone leads out of a chroot.
        same_place = ("nsenter", f"--mount={of_agent}/ns/mnt", f"--root={of_agent}/root",
                      f"--wd={of_agent}/cwd", "--")  # fmt: skip
        second = AgentProcess(tmp_path, machine, prefix=same_place)
        assert second.child.wait(60) == 4
        assert one_sentence(second.text) == (
            f"Another gpugauge agent runs on this node (pid {it.child.pid}). "
            "Two would count every call twice: stop one of them."
        )
        assert it.status("/healthz") == 200


def one_sentence(log: str) -> str:
    """Return the one line that is no log line: the error, without the program's name."""
    lines = [line for line in log.splitlines() if line and not line[:4].isdigit()]
    assert len(lines) == 1, log
    assert "Traceback" not in log
    return lines[0].removeprefix("gpugauge: ")


def test_a_port_in_use(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine) as it:
        other = AgentProcess(tmp_path, machine, "--listen-port", str(it.port))
        assert other.child.wait(60) == 4
        assert str(it.port) in one_sentence(other.text)
        assert breakpoints(machine) == 2


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    missing = str(tmp_path / "libcuda.so.1")
    it = AgentProcess(tmp_path, machine, "--attach-libraries", missing)
    assert it.child.wait(60) == 4
    assert missing in one_sentence(it.text)


def test_no_driver_at_all(tmp_path: Path) -> None:
    """It waits for one: nodes get their driver later than their agent."""
    machine = OwnMachine(tmp_path)
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    flags = ("--attach-libraries", "", "--attach-driver-roots", str(nowhere))
    with agent(tmp_path, machine, *flags) as it:
        text = it.get("/metrics")
        assert total(metrics(text, "gpugauge_agent_up")) == 1
        check_metrics(text)
        assert it.snapshot()["processes"] == []


def test_an_empty_library(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    empty = tmp_path / "libcuda.so.580.1"
    empty.touch()
    it = AgentProcess(tmp_path, machine, "--attach-libraries", str(empty))
    assert it.child.wait(60) == 4
    assert f"{empty} cannot be opened (it is empty)." in one_sentence(it.text)


@pytest.mark.parametrize("kind", ["truncated", "text"])
def test_a_damaged_library(tmp_path: Path, kind: str) -> None:
    """It is refused with a sentence; the agent goes on."""
    machine = OwnMachine(tmp_path)
    whole = machine.library.read_bytes()
    damaged = tmp_path / "libcuda.so.580.1"
    damaged.write_bytes({"truncated": whole[:30_011], "text": b"text\n" * 99}[kind])
    with agent(tmp_path, machine, "--attach-libraries", str(damaged)) as it:
        assert f"not attached to {damaged}" in it.text
        assert "Traceback" not in it.text
        assert it.status("/healthz") == 200
        assert it.snapshot()["agent"]["libraries"] == 0


def test_a_stripped_library(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    subprocess.run(["strip", "--strip-all", str(machine.library)], check=True)
    with agent(tmp_path, machine) as it:
        (line,) = machine.workload("training", steps=3)
        it.next_snapshot()
        found = metrics(it.get("/metrics"), "gpugauge_launches_total")
        assert total(found) == line["counts"]["cuLaunchKernel"]


def test_without_nvml(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    (machine.library.parent / "libnvidia-ml.so.1").unlink()
    with agent(tmp_path, machine) as it:
        (line,) = machine.workload("training", steps=3)
        snapshot = it.next_snapshot()
        assert snapshot["agent"]["nvml_error"] == "libnvidia-ml.so.1 was not found."
        text = it.get("/metrics")
        assert total(metrics(text, "gpugauge_launches_total")) == line["counts"]["cuLaunchKernel"]
        check_metrics(text)


def test_nvml_that_fails_or_hangs(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path, nvml_code=999)
    with agent(tmp_path, machine) as it:
        assert it.next_snapshot()["agent"]["nvml_error"]
        machine.control.configure(nvml_code=0, nvml_hang=1)
        (line,) = machine.workload("training", steps=3)
        it.next_snapshot()
        found = metrics(it.get("/metrics"), "gpugauge_launches_total")
        assert total(found) == line["counts"]["cuLaunchKernel"]
        assert it.status("/healthz") == 200
        took = it.end()
    assert took < 2, f"SIGTERM took {took:.2f} s"
    machine.control.configure(nvml_hang=0)


def test_without_privileges(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--")
    it = AgentProcess(tmp_path, machine, prefix=prefix)
    assert it.child.wait(60) == 3
    assert "capabilit" in one_sentence(it.text)


@pytest.mark.parametrize("mode", ["session", "multi"])
def test_a_forced_mode_that_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    offered = features.probe()
    refused = Feature(mode, False, offered[mode].minimum_linux, "EINVAL")
    monkeypatch.setattr(features, "probe", lambda: dict(offered) | {mode: refused})
    assert main(["run", "--attach-mode", mode, "--listen-port", "0"]) == 3
    error = capsys.readouterr().err
    assert f"{mode} is not offered by this Linux" in error
    assert "Traceback" not in error


def test_the_snapshot_reads_back(tmp_path: Path) -> None:
    machine = OwnMachine(tmp_path)
    with agent(tmp_path, machine) as it:
        machine.workload("training", steps=3)
        it.next_snapshot()
        assert load_snapshot(it.get("/api/v1/snapshot").encode()).simulated
