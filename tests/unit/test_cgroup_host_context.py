"""CPU quota, throttling, CPU time and pressure, from trees of either version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.cgroup_files import (
    quota_v1,
    quota_v2,
    read_number,
    read_pairs,
    stalled_ns,
)
from gpugauge.attribution.host_context import HostContexts
from gpugauge.attribution.kept_files import KeptFiles
from gpugauge.model.snapshot import HostContext
from gpugauge.model.workload import HOST, Owner, Scope

H = "0123456789abcdef" * 4
U = "3f2a1b4c-0d5e-4f60-8a7b-9c0d1e2f3a4b"
POD = f"/kubepods/burstable/pod{U}"
PATH = f"{POD}/{H}"
OWNER = Owner(Scope.POD, "ml", "web", "main")
PRESSURE = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0 avg300=0 total=7\n"
)


def write(root, files):
    for name, text in files.items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def read(root, paths, owner=OWNER, **more):
    contexts = HostContexts(str(root), **more)
    try:
        (found,) = contexts.read({owner: paths}, [owner])
        assert contexts.read({owner: paths}, [owner]) == (found,)  # from files that are open
    finally:
        contexts.close()
    return found


def v2(prefix, *, quota="max 100000", throttled=0, usage=0):
    return {
        f"{prefix}/cpu.max": f"{quota}\n",
        f"{prefix}/cpu.stat": f"usage_usec {usage}\nnr_throttled 3\nthrottled_usec {throttled}\n",
        f"{prefix}/cpu.pressure": PRESSURE.format(101),
        f"{prefix}/io.pressure": PRESSURE.format(103),
        f"{prefix}/memory.pressure": PRESSURE.format(107),
    }


def test_version_2(tmp_path):
    write(tmp_path, {"cgroup.controllers": "cpu"})
    write(tmp_path, v2(PATH, quota="150000 100000", throttled=11, usage=2003))
    write(tmp_path, v2(POD, quota="200000 100000", throttled=2, usage=999_999))
    assert read(tmp_path, (("", f"{PATH}/init.scope"),)) == HostContext(
        owner=OWNER,
        cpu_quota_cores=1.5,
        cpu_throttled_ns=13_000,
        cpu_used_ns=2_003_000,
        pressure_ns={"cpu": 101_000, "io": 103_000, "memory": 107_000},
    )


def test_the_pods_quota_holds_where_the_container_has_none(tmp_path):
    write(tmp_path, {"cgroup.controllers": "cpu"})
    write(tmp_path, v2(PATH))
    write(tmp_path, v2(POD, quota="50000 100000", throttled=5))
    found = read(tmp_path, (("", PATH),))
    assert found.cpu_quota_cores == 0.5
    assert found.cpu_throttled_ns == 5_000


def v1(root, *, folder="cpu,cpuacct"):
    cpu, acct = (folder, folder) if "," in folder else ("cpu", "cpuacct")
    write(
        root,
        {
            f"{cpu}{PATH}/cpu.cfs_quota_us": "20000\n",
            f"{cpu}{PATH}/cpu.cfs_period_us": "100000\n",
            f"{cpu}{PATH}/cpu.stat": "nr_periods 5\nnr_throttled 3\nthrottled_time 1009\n",
            f"{cpu}{POD}/cpu.cfs_quota_us": "-1\n",
            f"{cpu}{POD}/cpu.cfs_period_us": "100000\n",
            f"{cpu}{POD}/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            f"{acct}{PATH}/cpuacct.usage": "123457\n",
        },
    )


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_version_1(tmp_path, folder):
    v1(tmp_path, folder=folder)
    paths = (("cpu", PATH), ("cpuacct", PATH), ("memory", PATH), ("", "/system.slice/x"))
    assert read(tmp_path, paths) == HostContext(
        owner=OWNER, cpu_quota_cores=0.2, cpu_throttled_ns=1009, cpu_used_ns=123_457
    )


def test_hybrid_takes_pressure_from_the_same_name_in_version_2(tmp_path):
    v1(tmp_path)
    write(tmp_path / "unified", {"cgroup.controllers": "", **v2(PATH)})
    paths = (("cpu", PATH), ("cpuacct", PATH), ("", "/system.slice/containerd.service"))
    found = read(tmp_path, paths)
    assert found.cpu_quota_cores == 0.2
    assert found.pressure_ns == {"cpu": 101_000, "io": 103_000, "memory": 107_000}


def test_a_process_known_by_the_tree_alone_is_read_in_version_1_too(tmp_path):
    v1(tmp_path)
    write(tmp_path / "unified", {"cgroup.controllers": "", **v2(PATH)})
    found = read(tmp_path, (("", PATH),))
    assert found.cpu_quota_cores == 0.2
    assert found.cpu_used_ns == 123_457


def test_nothing_known_is_none(tmp_path):
    write(tmp_path, {"cgroup.controllers": "cpu"})
    assert read(tmp_path, ()) == HostContext(owner=OWNER)
    assert read(tmp_path, (("", PATH),)) == HostContext(owner=OWNER)
    assert read(tmp_path, (("", f"/../{PATH}"),)) == HostContext(owner=OWNER)


def test_the_hosts_is_that_of_the_machine(tmp_path):
    write(tmp_path, {"proc/pressure/cpu": PRESSURE.format(3), "proc/pressure/io": "odd"})
    found = read(tmp_path, (), HOST, proc=str(tmp_path / "proc"))
    assert found == HostContext(owner=HOST, pressure_ns={"cpu": 3_000})


@given(st.binary(max_size=300))
def test_any_bytes_are_numbers_or_none(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("f")
    for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "x"):
        (folder / name).write_bytes(data)
    read = KeptFiles(0).read
    quotas = quota_v1(str(folder), read), quota_v2(f"{folder}/cpu.max", read)
    for value in (*quotas, stalled_ns(f"{folder}/x", read)):
        assert value is None or value >= 0
    assert all(isinstance(value, int) for value in read_pairs(f"{folder}/x", read).values())
    number = read_number(f"{folder}/x", read)
    assert number is None or isinstance(number, int)


def test_a_container_that_moved_is_found_again(tmp_path):
    write(tmp_path, {"cgroup.controllers": "cpu"})
    write(tmp_path, v2(PATH, usage=5))
    contexts = HostContexts(str(tmp_path))
    (first,) = contexts.read({OWNER: (("", PATH),)}, [OWNER])
    other = f"/kubepods/besteffort/pod{U}/{H}"
    write(tmp_path, v2(other, usage=7))
    (second,) = contexts.read({OWNER: (("", other),)}, [OWNER])
    assert (first.cpu_used_ns, second.cpu_used_ns) == (5_000, 7_000)
    contexts.close()


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["write", "read", "turn"])),
        max_size=30,
    ),
    st.integers(0, 3),
)
def test_what_is_kept_open_reads_as_what_is_there(tmp_path_factory, steps, most):
    folder = tmp_path_factory.mktemp("k")
    kept = KeptFiles(most)
    for number, (name, step) in enumerate(steps):
        path = folder / name
        if step == "write":
            path.write_text(str(number))
        elif step == "turn":
            kept.turn()
        found = kept.read(str(path))
        assert found == (path.read_bytes() if path.exists() else None)
        assert len(kept) <= most
    kept.close()
    assert len(kept) == 0
