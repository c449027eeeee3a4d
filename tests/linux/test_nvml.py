"""The inventory by NVIDIA's own binding, over the simulated NVML, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sim.build import build
from sim.control import Control, create, environment

AGENT = """
import json, sys
from dataclasses import asdict
from gpugauge.vendors.nvml import NvmlInventory
from gpugauge.vendors.nvml_thread import NvmlThread

inventory = NvmlInventory(library_path=sys.argv[1])
nvml = NvmlThread(inventory.read, inventory.release, int(sys.argv[2]))
for line in sys.stdin:
    if line == "read\\n":
        answer = asdict(nvml.inventory())
    elif line == "release\\n":
        answer = nvml.release()
    elif line == "mapped\\n":
        answer = any("libnvidia-ml" in row for row in open("/proc/self/maps"))
    print(json.dumps(answer), flush=True)
"""
GIB = 1 << 30
PATIENT_NS = 20_000_000_000
IMPATIENT_NS = 50_000_000


class Agent:
    """The child: asked by lines, answers in JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, what: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(what, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def read(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask("read")
        return answer


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sim"))


@contextmanager
def agent(
    state: Path, library: Path | None, path: str = "", deadline_ns: int = PATIENT_NS
) -> Iterator[Agent]:
    made = environment(state, library)
    made["PYTHONPATH"] = f"{Path(__file__).parents[2] / 'src'}:{made['PYTHONPATH']}"
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, path, str(deadline_ns)],
        env=made,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Agent(process)
        finally:
            process.kill()


@pytest.fixture
def control(tmp_path: Path, library: Path) -> Iterator[Control]:
    with create(
        tmp_path / "state",
        library,
        device_count=3,
        device_bytes=64 * GIB,
        reserved_bytes=1 * GIB,
        context_bytes=512 << 20,
    ) as made:
        yield made


WORKLOAD = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
for code in (
    cuda.cuInit(0),
    cuda.cuCtxCreate_v2(ctypes.byref(context), 0, int(sys.argv[1])),
    cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_uint64(6 << 30)),
):
    assert code == 0, code
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def workload(state: Path, library: Path, ordinal: int, visible: str | None = None) -> Iterator[int]:
    made = environment(state, library)
    if visible:
        made["CUDA_VISIBLE_DEVICES"] = visible
    with subprocess.Popen(
        [sys.executable, "-c", WORKLOAD, str(ordinal)],
        env=made,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.stdin.close()


def test_devices_and_who_is_on_them(tmp_path: Path, library: Path, control: Control) -> None:
    with (
        agent(tmp_path / "state", library) as child,
        workload(tmp_path / "state", library, 1) as pid,
    ):
        inventory = child.read()
    assert inventory["error"] == ""
    devices = inventory["devices"]
    assert [device["index"] for device in devices] == [0, 1, 2]
    assert len({device["uuid"] for device in devices}) == 3
    assert all(device["uuid"].startswith("GPU-") for device in devices)
    assert all(device["simulated"] for device in devices)
    assert {device["memory_total_bytes"] for device in devices} == {64 * GIB}
    assert {device["memory_reserved_bytes"] for device in devices} == {1 * GIB}
    held = (6 << 30) + (512 << 20)
    expected = [{"pid": pid, "memory_held_bytes": held, "kind": "compute"}]
    assert [device["processes"] for device in devices] == [[], expected, []]
    assert [device["memory_used_bytes"] for device in devices] == [0, held, 0]


def test_mig_instances(tmp_path: Path, library: Path) -> None:
    state = tmp_path / "state"
    with (
        create(state, library, device_count=2, mig_instances=3),
        agent(state, library) as child,
    ):
        before = child.read()["devices"]
        third = [d["uuid"] for d in before if d["mig_parent_uuid"]][2]
        with workload(state, library, 0, visible=third) as pid:
            devices = child.read()["devices"]
    parents = [device for device in devices if not device["mig_parent_uuid"]]
    instances = [device for device in devices if device["mig_parent_uuid"]]
    assert (len(parents), len(instances)) == (2, 6)
    assert all(device["uuid"].startswith("MIG-") for device in instances)
    of = [parents[0]["uuid"]] * 3 + [parents[1]["uuid"]] * 3
    assert [device["mig_parent_uuid"] for device in instances] == of
    assert len({(d["index"], d["gpu_instance"], d["compute_instance"]) for d in instances}) == 6
    assert all(device["mig_profile"] for device in instances)
    assert [[p["pid"] for p in d["processes"]] for d in instances] == [[], [], [pid], [], [], []]
    assert [device["processes"] for device in parents] == [[], []]


@pytest.mark.parametrize("code", [3, 15, 999])
def test_every_call_refused_is_an_error(
    tmp_path: Path, library: Path, control: Control, code: int
) -> None:
    with agent(tmp_path / "state", library) as child:
        assert len(child.read()["devices"]) == 3
        control.configure(nvml_code=code)
        refused = child.read()
        assert refused["devices"] == []
        assert refused["error"].startswith(f"NVML answered {code}:")
        control.configure(nvml_code=0)
        assert len(child.read()["devices"]) == 3


def test_a_driver_that_vanished_and_came_back(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with agent(tmp_path / "state", library) as child:
        child.read()
        control.configure(nvml_vanished=1)
        assert child.read()["error"] == "NVML lost its session."
        assert not child.ask("mapped")
        control.configure(nvml_vanished=0)
        assert len(child.read()["devices"]) == 3


def test_a_hang_is_said_and_the_last_answer_goes_on(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with agent(tmp_path / "state", library, deadline_ns=IMPATIENT_NS) as child:
        while (before := child.read())["error"]:
            pass  # the first load may take longer than this deadline
        control.configure(nvml_hang=1)
        for _ in range(5):
            during = child.read()
            assert during["devices"] == before["devices"]
            assert during["error"].startswith("NVML not answering since ")
            assert during["age_ns"] > 0
        assert child.ask("release") is False
        control.configure(nvml_hang=0)
        while (after := child.read())["error"]:
            pass
        assert after["devices"] == before["devices"]


def test_memory_that_is_not_told_is_none(tmp_path: Path, library: Path, control: Control) -> None:
    control.configure(nvml_no_memory=1)
    with (
        agent(tmp_path / "state", library) as child,
        workload(tmp_path / "state", library, 0) as pid,
    ):
        device = child.read()["devices"][0]
    assert device["processes"] == [{"pid": pid, "memory_held_bytes": None, "kind": "compute"}]


def test_a_lie_about_the_number_of_processes_costs_no_memory(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with agent(tmp_path / "state", library) as child:
        child.read()
        for count in (16385, 1_000_003, 2**32 - 1):
            control.configure(nvml_process_count=count)
            inventory = child.read()
            assert [device["processes"] for device in inventory["devices"]] == [None] * 3
            assert inventory["error"] == ""
        control.configure(nvml_process_count=0)
        assert [device["processes"] for device in child.read()["devices"]] == [[], [], []]


def test_release_unmaps_the_library_and_the_next_read_loads_it_again(
    tmp_path: Path, library: Path, control: Control
) -> None:
    with agent(tmp_path / "state", library) as child:
        child.read()
        assert child.ask("mapped")
        assert child.ask("release")
        assert not child.ask("mapped")
        assert len(child.read()["devices"]) == 3


def test_a_driver_root_is_used_by_its_path_and_may_appear_later(
    tmp_path: Path, library: Path, control: Control
) -> None:
    root = tmp_path / "driver" / "libnvidia-ml.so.1"
    with agent(tmp_path / "state", None, path=str(root)) as child:
        assert child.read()["error"] == "libnvidia-ml.so.1 was not found."
        root.parent.mkdir()
        root.symlink_to(library.parent / "libnvidia-ml.so.1")
        assert len(child.read()["devices"]) == 3
