"""What really happened: counts and times that the simulated driver wrote itself.

Everything is read from files that outlive the processes, however these ended.
"""

from __future__ import annotations

import mmap
import struct
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sim import layout
from sim.stubs import symbols

OTHER_CODES = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one exported symbol by one process."""

    entered: int
    by_code: dict[int, int]
    """Ended calls by CUresult. Key OTHER_CODES sums what is beyond the seventh code."""

    @property
    def ended(self) -> int:
        """Calls that returned."""
        return sum(self.by_code.values())

    @property
    def succeeded(self) -> int:
        """Calls that returned CUDA_SUCCESS."""
        return self.by_code.get(0, 0)


@dataclass(frozen=True, slots=True)
class Process:
    """One process, or what it was between two exec or fork calls."""

    pid: int
    """As the process itself saw it, in its own pid namespace."""
    parent_pid: int
    """The process that forked it after its first call, else 0."""
    start_ns: int
    """CLOCK_MONOTONIC of the first call."""
    calls: dict[str, Calls]
    """By exported symbol, only those called."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One process on one device. Fields: SIM_ROW_FIELDS in c/layout.h."""

    values: dict[str, int]

    def __getattr__(self, name: str) -> int:
        """Return a field by name."""
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    def idle_until(self, now_ns: int) -> int:
        """Return the time with nothing outstanding from the first submission to a moment, in ns."""
        idle = self.values["idle_ns"]
        if self.values["first_submit_ns"] and not self.values["outstanding"]:
            idle += max(0, now_ns - self.values["empty_since_ns"])
        return idle

    @property
    def requested(self) -> dict[str, int]:
        """Live bytes by family."""
        return self._family("requested_")

    @property
    def peak(self) -> dict[str, int]:
        """The most live bytes by family."""
        return self._family("peak_")

    def _family(self, prefix: str) -> dict[str, int]:
        found = self.values.items()
        return {name.removeprefix(prefix): v for name, v in found if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the simulated machine."""

    uuid: str
    parent_uuid: str
    mig: bool
    busy_ns: int
    used_bytes: int
    total_bytes: int
    clock_ns: int


class Oracle:
    """Reads the state file and the oracle files beside it."""

    def __init__(self, state: Path | str) -> None:
        self._state = Path(state)
        self._symbols = symbols()

    def processes(self) -> list[Process]:
        """Return every process that ever made a call, by time of its first call."""
        folder = Path(f"{self._state}.oracle")
        found = [self._process(path) for path in folder.iterdir()] if folder.is_dir() else []
        return sorted((each for each in found if each), key=lambda each: each.start_ns)

    def process(self, pid: int) -> Process:
        """Return the newest process of this pid.

        Raises:
            KeyError: it made no call.
        """
        for process in reversed(self.processes()):
            if process.pid == pid:
                return process
        raise KeyError(pid)

    def calls(self, pids: Iterable[int] | None = None) -> Counter[str]:
        """Return the ended calls by symbol, over these processes or all."""
        wanted = None if pids is None else set(pids)
        total: Counter[str] = Counter()
        for process in self.processes():
            if wanted is None or process.pid in wanted:
                total.update({name: calls.ended for name, calls in process.calls.items()})
        return total

    def errors(self, pids: Iterable[int] | None = None) -> Counter[tuple[str, int]]:
        """Return the calls by (symbol, CUresult) that did not succeed."""
        wanted = None if pids is None else set(pids)
        total: Counter[tuple[str, int]] = Counter()
        for process in self.processes():
            if wanted is None or process.pid in wanted:
                for name, calls in process.calls.items():
                    total.update({(name, code): n for code, n in calls.by_code.items() if code})
        return total

    def truths(self) -> list[Truth]:
        """Return every (process, device) row, as of the device's last step."""
        rows = (self._row(layout.ROWS, at, image) for image in self._image() for at in _all_rows())
        return [Truth(values) for values in rows if values["used"]]

    def truth(self, pid: int, device: int = 0) -> Truth:
        """Return the newest row of a process on a device (index in the state file).

        Raises:
            KeyError: the process never had a context there.
        """
        found = [row for row in self.truths() if row.pid == pid and row.device == device]
        if not found:
            raise KeyError((pid, device))
        return max(found, key=lambda row: row.start_ns)

    def devices(self) -> list[Device]:
        """Return the devices: with MIG its instances."""
        rows = [
            self._row(layout.DEVICES, at, image)
            for image in self._image()
            for at in range(layout.DEVICES.rows)
        ]
        return [_device(values) for values in rows if values["total_bytes"]]

    def _image(self) -> Iterator[mmap.mmap]:
        with (
            self._state.open("rb") as file,
            mmap.mmap(file.fileno(), layout.STATE_BYTES, access=mmap.ACCESS_READ) as image,
        ):
            yield image

    @staticmethod
    def _row(table: layout.Table, at: int, image: mmap.mmap) -> dict[str, int]:
        words = struct.unpack_from(f"<{len(table.fields)}Q", image, table.at(at, table.fields[0]))
        return dict(zip(table.fields, words, strict=True))

    def _process(self, path: Path) -> Process | None:
        data = path.read_bytes()
        table = layout.ORACLE_SYMBOLS
        if len(data) < table.end:
            return None  # being made at this moment
        words = struct.unpack_from(f"<{len(layout.ORACLE_HEADER.fields)}Q", data)
        head = dict(zip(layout.ORACLE_HEADER.fields, words, strict=True))
        calls: dict[str, Calls] = {}
        for index, name in enumerate(self._symbols):
            entered, succeeded, *codes = struct.unpack_from(
                f"<{2 + 2 * layout.CODES}Q", data, table.at(index, "entered")
            )
            if entered:
                pairs = zip(codes[::2], codes[1::2], strict=True)
                by_code = {0: succeeded, **{code: n for code, n in pairs if n}}
                calls[name] = Calls(entered, {code: n for code, n in by_code.items() if n})
        return Process(head["pid"], head["parent_pid"], head["start_ns"], calls)


def _all_rows() -> range:
    return range(layout.ROWS.rows)


def _device(values: dict[str, int]) -> Device:
    mig = bool(values["mig"])
    return Device(
        uuid=_uuid("MIG" if mig else "GPU", values["uuid_high"], values["uuid_low"]),
        parent_uuid=_uuid("GPU", values["parent_high"], values["parent_low"]),
        mig=mig,
        busy_ns=values["busy_ns"],
        used_bytes=values["used_bytes"],
        total_bytes=values["total_bytes"],
        clock_ns=values["clock_ns"],
    )


def _uuid(prefix: str, high: int, low: int) -> str:
    return f"{prefix}-{uuid.UUID(int=high << 64 | low)}"
