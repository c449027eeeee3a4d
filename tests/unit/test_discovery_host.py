"""Where the host's driver is: the loader's cache, folders, links inside a root."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.discovery.host import (
    find_host_drivers,
    loaded_driver_version,
    parse_driver_version,
    resolve,
)
from gpugauge.discovery.ldcache import library_paths
from gpugauge.vendors import CUDA

X86_64 = 0x0303


def cache(entries: list[tuple[str, str, int]], before: bytes = b"") -> bytes:
    """An ld.so.cache of the present form, as ldconfig(8) lays it out."""
    strings, rows = b"", b""
    offset = 48 + 24 * len(entries)
    for name, path, flags in entries:
        key = offset + len(strings)
        strings += name.encode() + b"\0"
        value = offset + len(strings)
        strings += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, key, value, 0, 0)
    header = struct.pack("<20sII5I", b"glibc-ld.so.cache1.1", len(entries), len(strings), *[0] * 5)
    return before + header + rows + strings


ENTRIES = [
    ("libc.so.6", "/usr/lib/libc.so.6", X86_64),
    ("libcuda.so.1", "/opt/driver/libcuda.so.1", X86_64),
    ("libcuda.so.1", "/usr/lib32/libcuda.so.1", 0x0003),
    ("libcuda.so", "/opt/driver/libcuda.so", X86_64),
]


def test_the_loaders_cache_gives_64_bit_paths() -> None:
    wanted = ("/opt/driver/libcuda.so.1", "/opt/driver/libcuda.so")
    assert library_paths(cache(ENTRIES), CUDA.is_library) == wanted
    old = struct.pack("<12sI", b"ld.so-1.7.0", 3) + bytes(3 * 12)
    padded = old + bytes(-len(old) % 8)
    assert library_paths(cache(ENTRIES, padded), CUDA.is_library) == wanted


@pytest.mark.skipif(shutil.which("ldconfig") is None, reason="this system has no ldconfig")
def test_a_cache_by_ldconfig_itself_is_read(tmp_path: Path) -> None:
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    told = {line.split(" => ")[1] for line in listing.splitlines() if "(libc6,x86-64" in line}
    read = library_paths(Path("/etc/ld.so.cache").read_bytes(), bool)
    assert told
    assert set(read) == told


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(raw: bytes) -> None:
    library_paths(raw, lambda name: True)
    library_paths(b"glibc-ld.so.cache1.1" + raw, lambda name: True)
    library_paths(b"ld.so-1.7.0\0" + raw, lambda name: True)


@given(st.data())
def test_any_mutation_of_a_cache_is_survived(data: st.DataObject) -> None:
    raw = bytearray(cache(ENTRIES))
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    library_paths(bytes(raw[: data.draw(st.integers(0, len(raw)))]), CUDA.is_library)


def library(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    return path


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def test_a_debian_host(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    real = library(folder / "libcuda.so.580.159.04")
    link(folder / "libcuda.so.1", "libcuda.so.580.159.04")
    link(folder / "libcuda.so", "libcuda.so.1")
    link(tmp_path / "lib", "usr/lib")
    (driver,) = find_host_drivers(CUDA, host_root=str(tmp_path))
    assert (driver.path, driver.version) == (str(real), "580.159.04")
    assert not driver.own_mount


def test_links_are_followed_inside_the_hosts_root(tmp_path: Path) -> None:
    real = library(tmp_path / "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.54.03")
    link(
        tmp_path / "etc/alternatives/nvidia--libcuda.so.1",
        "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.54.03",
    )
    link(
        tmp_path / "usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/etc/alternatives/nvidia--libcuda.so.1",
    )
    (driver,) = find_host_drivers(CUDA, host_root=str(tmp_path))
    assert driver.path == str(real)


def test_driver_roots_and_the_loaders_cache(tmp_path: Path) -> None:
    odd = library(tmp_path / "opt/driver/libcuda.so.1")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(cache(ENTRIES))
    operator = library(tmp_path / "run/nvidia/driver/usr/lib64/libcuda.so.550.1")
    gke = library(tmp_path / "home/kubernetes/bin/nvidia/lib64/libcuda.so.570.2")
    roots = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/absent")
    drivers = find_host_drivers(CUDA, roots, str(tmp_path))
    assert [driver.path for driver in drivers] == [str(odd), str(operator), str(gke)]
    assert [driver.version for driver in drivers] == ["", "550.1", "570.2"]


def test_a_host_without_a_driver(tmp_path: Path) -> None:
    library(tmp_path / "usr/lib64/libcudart.so.12")
    link(tmp_path / "usr/lib64/libcuda.so.1", "libcuda.so.1")
    os.mkfifo(tmp_path / "usr/lib64/libcuda.so")
    (tmp_path / "usr/lib64/libcuda.so.580.1").mkdir()
    assert find_host_drivers(CUDA, host_root=str(tmp_path)) == ()
    assert find_host_drivers(CUDA, host_root=str(tmp_path / "none")) == ()


def test_no_link_leaves_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    library(root / "target")
    library(tmp_path / "outside")
    link(root / "up", "../../outside")
    link(root / "around", "around")
    link(root / "absolute", "/target")
    assert resolve(str(root), "up") is None
    assert resolve(str(root), "../outside") is None
    assert resolve(str(root), "around") is None
    assert resolve(str(root), "../../absolute") == str(root / "target")
    assert resolve(str(root), "") == str(root)
    assert resolve("/", "") == "/"


OPEN = b"""NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)
GCC version:  gcc version 12.3.0
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (OPEN, "580.159.04"),
        (b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue\n", "535.54.03"),
        (b"GCC version: 12.3.0\n", ""),
        (b"", ""),
    ],
)
def test_the_loaded_version(text: bytes, version: str, tmp_path: Path) -> None:
    assert parse_driver_version(text) == version
    (tmp_path / "version").write_bytes(text)
    assert loaded_driver_version(str(tmp_path / "version")) == version


def test_no_loaded_driver(tmp_path: Path) -> None:
    assert loaded_driver_version(str(tmp_path / "none")) == ""


@given(st.binary(max_size=200))
def test_any_version_text_is_survived(raw: bytes) -> None:
    parse_driver_version(b"NVRM version:" + raw)
