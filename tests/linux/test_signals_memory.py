"""Requested memory, to the byte, by family; and what graphs launch."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from gpugauge.model.abi import Family, Slot
from tests.linux.tracing import Session, Traced, traced

FAMILIES = {family.name.lower(): family for family in Family if family is not Family.RANGE}

MAKE = {
    "device": "pointer = driver.allocate({size}); live['device'].append(pointer)",
    "managed": "pointer = c_uint64(); "
    "call('cuMemAllocManaged', byref(pointer), c_size_t({size}), 1); "
    "live['managed'].append(pointer)",
    "pool": "pointer = c_uint64(); "
    "call('cuMemAllocAsync', byref(pointer), c_size_t({size}), None); "
    "live['pool'].append(pointer)",
    "host": "live['host'].append(driver.pinned({size}))",
    "host_registered": "buffer = ctypes.create_string_buffer({size}); "
    "call('cuMemHostRegister_v2', buffer, c_size_t({size}), 0); "
    "live['host_registered'].append(buffer)",
    "array": "made = c_void_p(); "
    "call('cuArrayCreate_v2', byref(made), (c_uint64 * 3)({size}, 3, 0x20 | 2 << 32)); "
    "live['array'].append(made)",
    "virtual": "handle = c_void_p(); "
    "call('cuMemCreate', byref(handle), c_size_t(2 << 20), (c_int * 8)(1, 0, 1, 0), c_uint64(0)); "
    "live['virtual'].append(handle)",
}
FREE = {
    "device": "call('cuMemFree_v2', {pointer})",
    "managed": "call('cuMemFree_v2', {pointer})",
    "pool": "call('cuMemFreeAsync', {pointer}, None)",
    "host": "call('cuMemFreeHost', {pointer})",
    "host_registered": "call('cuMemHostUnregister', {pointer})",
    "array": "call('cuArrayDestroy', {pointer})",
    "virtual": "call('cuMemRelease', {pointer})",
}


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with traced(tmp_path_factory.mktemp("memory")) as made:
        yield made


def must_equal(it: Traced, pid: int) -> None:
    """Hold requested bytes and peaks against the oracle's."""
    truth = it.oracle.truth(pid)
    found = [d.memory for d in it.process(pid).devices]
    for name, family in FAMILIES.items():
        rows = [each[family] for each in found if each and family in each]
        assert sum(row.requested_bytes for row in rows) == truth.requested[name], name
        assert sum(row.peak_bytes for row in rows) == truth.peak[name], name


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_every_family_to_the_byte(it: Traced, seed: int) -> None:
    """Allocations and frees in any order."""
    chance = random.Random(seed)
    with Session(it) as session:
        session.run(f"live = {{name: [] for name in {list(MAKE)!r}}}")
        live = dict.fromkeys(MAKE, 0)
        for step in range(151):
            name = chance.choice(list(MAKE))
            if live[name] and chance.random() < 0.45:
                at = chance.randrange(live[name])
                session.run(FREE[name].format(pointer=f"live[{name!r}].pop({at})"))
                live[name] -= 1
            else:
                session.run(MAKE[name].format(size=chance.choice((1, 17, 4099, 65537, 1048583))))
                live[name] += 1
            if step % 10 == 0:
                must_equal(it, session.pid)
        must_equal(it, session.pid)
        assert it.counted([session.pid]).calls == it.truth([session.pid]).calls


def test_virtual_memory_lives_while_it_is_mapped(it: Traced) -> None:
    with Session(it) as session:
        session.run(
            "chunk, zero, address = c_size_t(2 << 20), c_uint64(0), c_uint64()\n"
            + "live = {'virtual': []}; "
            + MAKE["virtual"]
            + "\ncall('cuMemAddressReserve', byref(address), chunk, zero, zero, zero)\n"
            "call('cuMemMap', address, chunk, zero, handle, zero)\n"
            "call('cuMemRelease', handle)"
        )
        must_equal(it, session.pid)
        assert it.oracle.truth(session.pid).requested["virtual"] == 2 << 20
        session.run("call('cuMemUnmap', address, chunk)")
        must_equal(it, session.pid)
        assert it.oracle.truth(session.pid).requested["virtual"] == 0


def test_failures_and_failed_frees(it: Traced) -> None:
    with Session(it) as session:
        session.run("kept = driver.allocate(65537)")
        it.machine.control.fail("cuMemAlloc_v2", 2, calls=3)
        session.run(
            "for size in (11, 13, 1 << 40): "
            "attempt('cuMemAlloc_v2', byref(c_uint64()), c_size_t(size))"
        )
        it.machine.control.fail("cuMemFree_v2", 700, calls=5)
        session.run("for _ in range(5): attempt('cuMemFree_v2', kept)")
        must_equal(it, session.pid)
        device = it.device(session.pid)
        assert device.memory is not None
        memory = device.memory[Family.DEVICE]
        assert (memory.failures, memory.failed_bytes) == (3, 1 << 40)
        assert (memory.allocations, memory.frees) == (1, 0)
        assert device.errors == {(Slot.ALLOCATE, 2): 3, (Slot.FREE, 700): 5}
        session.run("call('cuMemFree_v2', kept)")
        must_equal(it, session.pid)
        assert it.device(session.pid).memory[Family.DEVICE].frees == 1


def test_a_context_takes_its_memory_with_it(it: Traced) -> None:
    with Session(it) as session:
        session.run(
            "made = c_void_p(); call('cuCtxCreate_v2', byref(made), 0, 0)\n"
            "for _ in range(7): driver.allocate(4099)\n"
            "call('cuCtxDestroy_v2', made)\n"
            "driver.use(); driver.allocate(17)"
        )
        truth = it.oracle.truth(session.pid)
        memory = it.device(session.pid).memory[Family.DEVICE]
        assert memory.requested_bytes == truth.requested["device"] == 17


GRAPHS = """
def begin(): call('cuStreamBeginCapture_v2', stream, 2)
def end():
    made = c_void_p(); call('cuStreamEndCapture', stream, byref(made)); return made
def instantiate(graph):
    made = c_void_p()
    call('cuGraphInstantiateWithFlags', byref(made), graph, c_uint64(0)); return made
def replay(executable, times):
    for _ in range(times): call('cuGraphLaunch', executable, stream)
    driver.synchronize(stream)
def captured(n):
    begin(); [driver.launch(function, stream) for _ in range(n)]; return end()
def node(graph):
    made = c_void_p(); parameters = (c_uint64 * 32)(function.value)
    call('cuGraphAddKernelNode_v2', byref(made), graph, None, c_size_t(0), parameters)
    return made
stream = driver.stream()
"""


@pytest.mark.parametrize(
    ("text", "nodes", "unknown"),
    [
        ("replay(instantiate(captured(7)), 13)", 7 * 13, 0),
        ("graph = captured(7); [node(graph) for _ in range(3)]; replay(instantiate(graph), 5)",
         50, 0),
        ("copy = c_void_p(); call('cuGraphClone', byref(copy), captured(11)); "
         "replay(instantiate(copy), 3)", 33, 0),
        ("parent, made = captured(2), c_void_p(); call('cuGraphAddChildGraphNode', "
         "byref(made), parent, None, c_size_t(0), captured(5)); replay(instantiate(parent), 17)",
         7 * 17, 0),
        ("inner = instantiate(captured(3)); begin(); call('cuGraphLaunch', inner, stream); "
         "driver.launch(function, stream); replay(instantiate(end()), 7)", 4 * 7, 0),
        ("graph = captured(5); one = node(graph); call('cuGraphDestroyNode', one); "
         "replay(instantiate(graph), 19)", 0, 19),
        ("graph = captured(5); executable = instantiate(graph); call('cuGraphDestroy', graph); "
         "replay(executable, 23)", 5 * 23, 0),
    ],
    ids=["captured", "added", "cloned", "child", "launched in capture", "destroyed", "outlives"],
)  # fmt: skip
def test_nodes_of_graphs(it: Traced, text: str, nodes: int, unknown: int) -> None:
    with Session(it) as session:
        session.run(GRAPHS + text)
        device = it.device(session.pid)
        truth = it.oracle.truth(session.pid)
        assert device.graph_launch_nodes == nodes
        assert device.graph_launches_unknown == unknown
        if not unknown:
            assert truth.graph_nodes == nodes
        assert device.operations[Slot.GRAPH_LAUNCH].calls == truth.graph_launches
        assert Slot.LAUNCH not in device.operations
        assert it.losses() == {}


def test_capture_takes_the_launches_of_every_thread(it: Traced) -> None:
    """Another thread launches on the captured stream; a third one's own stream is not captured."""
    text = """
def on(stream, n):
    driver.use(); [driver.launch(function, stream) for _ in range(n)]
def in_thread(*given):
    worker = threading.Thread(target=on, args=given); worker.start(); worker.join()
other = driver.stream()
begin()
driver.launch(function, stream)
in_thread(stream, 5)
in_thread(other, 11)
graph = end()
replay(instantiate(graph), 3)
"""
    with Session(it) as session:
        session.run(GRAPHS + text.replace("begin()", "call('cuStreamBeginCapture_v2', stream, 2)"))
        device = it.device(session.pid)
        assert device.graph_launch_nodes == it.oracle.truth(session.pid).graph_nodes == 6 * 3
        assert device.operations[Slot.LAUNCH].calls == 11
        assert device.operations[Slot.CAPTURED].calls == 6
