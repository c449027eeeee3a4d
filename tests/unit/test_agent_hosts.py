"""Where NVML is loaded from, in a container of the agent's own and outside of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugauge.agent import hosts
from gpugauge.settings import AttachSettings, Settings
from gpugauge.vendors import VENDORS

FOLDER = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's root, seen from a container."""
    root = tmp_path / "host"
    monkeypatch.setattr(hosts, "host_root", lambda: str(root))
    return root


def install(root: Path, *names: str) -> Path:
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"\x7fELF")
    return folder


def found(own_root: Path, **attach: tuple[str, ...]) -> str:
    settings = Settings(attach=AttachSettings(**attach))
    return hosts.nvml_library(settings, VENDORS[0], str(own_root))


def test_a_container_without_a_runtimes_help_takes_the_hosts(host: Path, tmp_path: Path) -> None:
    assert found(tmp_path / "own") == ""
    folder = install(host, "libcuda.so.580.1", "libnvidia-ml.so.1")
    assert found(tmp_path / "own") == str(folder / "libnvidia-ml.so.1")


def test_what_a_runtime_put_into_the_container_comes_first(host: Path, tmp_path: Path) -> None:
    install(host, "libcuda.so.580.1", "libnvidia-ml.so.1")
    folder = install(tmp_path / "own", "libnvidia-ml.so.1")
    assert found(tmp_path / "own") == str(folder / "libnvidia-ml.so.1")


def test_named_libraries_decide_alone(host: Path, tmp_path: Path) -> None:
    install(host, "libcuda.so.580.1", "libnvidia-ml.so.1")
    folder = install(tmp_path / "named", "libcuda.so.1")
    named = (str(folder / "libcuda.so.1"),)
    assert found(tmp_path / "own", libraries=named) == ""
    install(tmp_path / "named", "libnvidia-ml.so.1")
    assert found(tmp_path / "own", libraries=named) == str(folder / "libnvidia-ml.so.1")


def test_a_driver_without_nvml_beside_it_is_passed_over(host: Path, tmp_path: Path) -> None:
    install(host, "libcuda.so.580.1")
    assert found(tmp_path / "own") == ""
    install(host / "run/nvidia/driver", "libcuda.so.580.1", "libnvidia-ml.so.1")
    assert found(tmp_path / "own").endswith(f"run/nvidia/driver/{FOLDER}/libnvidia-ml.so.1")


def test_outside_of_a_container_the_loader_knows_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "host_root", lambda: "/")
    monkeypatch.setattr(hosts, "find_host_drivers", lambda *_: ())
    assert found(tmp_path) == ""
