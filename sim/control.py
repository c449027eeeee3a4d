"""Set up a simulated machine for a test and change its behaviour while it runs."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from sim import layout
from sim.stubs import symbols

ALL = 2**64 - 1
MARKER = "gpugauge_simulated_driver"


def environment(
    state: Path | str, library: Path | str | None = None, **config: int
) -> dict[str, str]:
    """Return the environment of a process on this simulated machine.

    Args:
        state: the state file, made by the first process; its settings are the config of that one.
        library: libcuda.so.1, for the workloads; its folder leads LD_LIBRARY_PATH.
        config: fields of struct sim_config (c/layout.h) by name.
    """
    for name in config:
        if name not in layout.CONFIG.fields:
            raise KeyError(f"no setting {name!r} of the simulated driver: see sim/c/layout.h")
    root = Path(__file__).resolve().parent.parent
    made = dict(os.environ)
    made["GPUGAUGE_SIM_STATE"] = str(state)
    made |= {f"GPUGAUGE_SIM_{name.upper()}": str(value) for name, value in config.items()}
    made["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), made.get("PYTHONPATH"))))
    if library is not None:
        path = Path(library).resolve()
        made["GPUGAUGE_SIM_LIBRARY"] = str(path)
        made["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, (str(path.parent), made.get("LD_LIBRARY_PATH")))
        )
    return made


def create(state: Path | str, library: Path | str, **config: int) -> Control:
    """Make a state file with these settings and return its control.

    The file is made by the library itself, in a process that makes no counted device call and
    whose oracle file is removed again.

    Raises:
        RuntimeError: the library could not be loaded.
    """
    code = (
        "import ctypes, os\n"
        "library = ctypes.CDLL(os.environ['GPUGAUGE_SIM_LIBRARY'])\n"
        "library.gpugauge_simulated_create()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(state, library, **config),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the simulated driver did not start:\n{done.stderr}")
    return Control(state)


class Control:
    """The settings and switches of a state file, changed in place."""

    def __init__(self, state: Path | str) -> None:
        with Path(state).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), layout.STATE_BYTES)
        self._symbols = {name: index for index, name in enumerate(symbols())}

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmap the file; what was set stays."""
        self._map.close()

    def _put(self, offset: int, value: int) -> None:
        struct.pack_into("<Q", self._map, offset, value)

    def configure(self, **config: int) -> None:
        """Set fields of struct sim_config, from the next call of any process on."""
        for name, value in config.items():
            self._put(layout.CONFIG.at(0, name), value)

    def fail(self, symbol: str, code: int, calls: int = ALL) -> None:
        """Let the next calls of a function answer a CUresult instead of doing anything."""
        row = self._symbols[symbol]
        self._put(layout.CONTROLS.at(row, "remaining"), 0)
        self._put(layout.CONTROLS.at(row, "code"), code)
        self._put(layout.CONTROLS.at(row, "remaining"), calls)

    def heal(self, symbol: str) -> None:
        """Undo fail(), hang() and delay() of a function."""
        row = self._symbols[symbol]
        for field in ("remaining", "code", "hang", "delay_ns"):
            self._put(layout.CONTROLS.at(row, field), 0)

    def hang(self, symbol: str) -> None:
        """Let calls of a function not go on until heal()."""
        self._put(layout.CONTROLS.at(self._symbols[symbol], "hang"), 1)

    def delay(self, symbol: str, delay_ns: int) -> None:
        """Let each call of a function take this much longer."""
        self._put(layout.CONTROLS.at(self._symbols[symbol], "delay_ns"), delay_ns)
