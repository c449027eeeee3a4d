"""The compiled BPF objects inside this package, one per program and architecture."""

from __future__ import annotations

import platform
from pathlib import Path

from gpugauge.errors import UnavailableError, UnsupportedError

DIRECTORY = Path(__file__).parent / "objects"
ARCHITECTURES = ("x86_64", "aarch64")


def read(name: str) -> bytes:
    """Return an object for this machine.

    Args:
        name: `gpu` or `empty`.

    Raises:
        UnsupportedError: There are no objects for this architecture.
        UnavailableError: It was not compiled.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise UnsupportedError(
            f"There are no BPF programs for {machine}.", f"Use {' or '.join(ARCHITECTURES)}."
        )
    try:
        return (DIRECTORY / f"{name}.{machine}.o").read_bytes()
    except OSError:
        raise UnavailableError(
            f"The BPF object {name}.{machine}.o is missing.",
            "In a checkout, run `python tools/build_bpf.py`.",
        ) from None
