"""The simulated library has the names, the entry bytes and the answers of the real one."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from sim import stubs, versions
from sim.build import cached
from sim.machine import Machine, machine

ADDRESSES = """
import ctypes, json, os
library = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
names = json.loads(os.environ["NAMES"])
at = {n: ctypes.cast(getattr(library, n), ctypes.c_void_p).value for n in names}
entry = {n: ctypes.string_at(a, 24).hex() for n, a in at.items()}
got = {}
pointer, status = ctypes.c_void_p(), ctypes.c_int()
for base, version, flags in json.loads(os.environ["ASKED"]):
    code = library.cuGetProcAddress_v2(base.encode(), ctypes.byref(pointer), version,
                                       ctypes.c_uint64(flags), ctypes.byref(status))
    names_at = [n for n, a in at.items() if a == pointer.value]
    got[f"{base} {version} {flags}"] = [code, status.value, names_at]
print(json.dumps({"entry": entry, "got": got}))
"""


def ask(device: Machine, asked: list[tuple[str, int, int]]) -> dict:
    extra = {"NAMES": json.dumps(stubs.symbols()), "ASKED": json.dumps(asked)}
    return device.script(ADDRESSES, extra=extra)[0]


def exported(library: Path) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in listing.stdout.splitlines()}


@pytest.mark.parametrize("shape", stubs.SHAPES)
def test_exports_every_name_of_the_driver_and_only_a_marker_beside(shape: str) -> None:
    names = stubs.symbols()
    assert len(names) == len(set(names)) == 674
    beside = exported(cached(shape)) - set(names)
    assert set(names) <= exported(cached(shape))
    assert beside == {"gpugauge_simulated_driver", "gpugauge_simulated_create"}


@pytest.mark.parametrize("shape", stubs.SHAPES)
def test_soname(shape: str) -> None:
    text = subprocess.run(
        ["readelf", "-d", str(cached(shape))], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"soname.*\[libcuda\.so\.1\]", text)


def test_push_entries(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        entries = ask(device, [])["entry"]
    # push %rbp; mov %rsp,%rbp; push %r12; sub $8,%rsp; cmpl $0x321cba00,x(%rip); je
    shape = re.compile("554889e541544883ec08813d.{8}00ba1c320f84")
    assert [name for name, code in entries.items() if not shape.match(code)] == []


def test_je_entries(tmp_path: Path) -> None:
    with machine(tmp_path, "je") as device:
        entries = ask(device, [])["entry"]
    # cmpl $0x321cba00,x(%rip), ten bytes; je rel32; jmp *y(%rip)
    shape = re.compile("813d.{8}00ba1c320f84.{8}ff25")
    assert [name for name, code in entries.items() if not shape.match(code)] == []


@pytest.mark.parametrize(
    ("base", "version", "flags", "name"),
    [
        ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
        ("cuMemAlloc", 2000, 0, "cuMemAlloc"),
        ("cuLaunchKernel", 13000, 0, "cuLaunchKernel"),
        ("cuLaunchKernel", 13000, 1, "cuLaunchKernel"),
        ("cuLaunchKernel", 13000, 2, "cuLaunchKernel_ptsz"),
        ("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"),
        ("cuMemcpyHtoDAsync", 12000, 0, "cuMemcpyHtoDAsync_v2"),
        ("cuCtxSynchronize", 12080, 0, "cuCtxSynchronize"),
        ("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2"),
        ("cuCtxCreate", 11030, 0, "cuCtxCreate_v2"),
        ("cuCtxCreate", 11040, 0, "cuCtxCreate_v3"),
        ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"),
        ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
        ("cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz"),
        ("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2"),
        ("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"),
    ],
)
def test_proc_address_chooses_the_form(
    tmp_path: Path, base: str, version: int, flags: int, name: str
) -> None:
    with machine(tmp_path) as device:
        (answer,) = ask(device, [(base, version, flags)])["got"].values()
    assert answer == [0, 0, [name]]


def test_proc_address_answers_only_exported_addresses(tmp_path: Path) -> None:
    bases = sorted({versions.split(name)[0] for name in stubs.symbols()})
    asked = [(base, 13000, flags) for base in bases for flags in (0, 2)]
    with machine(tmp_path) as device:
        got = ask(device, [*asked, ("cuNoSuchFunction", 13000, 0)])["got"]
    assert got.pop("cuNoSuchFunction 13000 0")[:2] == [500, 1]
    assert {key for key, (code, _, names) in got.items() if code or len(names) != 1} == set()
