"""Values of NVML, made safe: what it refuses, or what cannot be, is None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpugauge.model.device import DeviceProcess

TEXT_LIMIT = 128
PROCESSES_LIMIT = 16384
"""Of one list: a larger count is a lie."""
NOT_AVAILABLE = (1 << 32) - 1
"""nvml.h: an instance id of a process that is in no MIG instance."""
_MEMORY_LIMIT_BYTES = 1 << 60
"""Above it, a number is NVML_VALUE_NOT_AVAILABLE or a lie."""

COMPUTE_MODES = {
    0: "default",
    1: "exclusive_thread",
    2: "prohibited",
    3: "exclusive_process",
}
"""nvml.h: nvmlComputeMode_t."""

UNKNOWN = "unknown"


class Questions:
    """Asks NVML one thing at a time, so that one refusal costs one field."""

    def __init__(self, api: Any, fatal: frozenset[int]) -> None:
        """Take the binding and the codes after which nothing else can be asked."""
        self._api = api
        self._fatal = fatal

    def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Return the answer of a function of the binding, None where NVML refuses.

        Raises:
            NVMLError: With a code that says the whole session is dead.
        """
        function: Callable[..., Any] | None = getattr(self._api, name, None)
        if function is None:
            return None
        try:
            return function(*arguments, **options)
        except self._api.NVMLError as error:
            if error.value in self._fatal:
                raise
            return None
        except (self._api.NVMLLibraryMismatchError, ValueError):
            # A driver older than the binding, or a text that is none.
            return None

    def processes(self, name: str, handle: Any) -> list[Any] | None:
        """Return a list of processes by its newest name, None where NVML refuses or lies.

        The binding makes an array of as many entries as NVML counts, so the
        count is looked at first.

        Raises:
            NVMLError: With a code that says the whole session is dead.
        """
        for version in ("_v3", "_v2"):
            function = self.ask("_nvmlGetFunctionPointer", name + version)
            if function is None:
                continue
            count = self._api.c_uint(0)
            function(handle, self._api.byref(count), None)
            if count.value > PROCESSES_LIMIT:
                return None
            answer: list[Any] | None = self.ask(name + version, handle)
            return None if answer is None else answer[:PROCESSES_LIMIT]
        return None


def text(value: Any) -> str:
    """Return an answer as text of at most 128 printable characters, `unknown` for none."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if not isinstance(value, str):
        return UNKNOWN
    return "".join(c for c in value[:TEXT_LIMIT] if c.isprintable()).strip() or UNKNOWN


def size_bytes(value: Any) -> int | None:
    """Return a number of bytes, None for what NVML does not know."""
    if not isinstance(value, int) or not 0 <= value < _MEMORY_LIMIT_BYTES:
        return None
    return value


def ratio(value: Any) -> float | None:
    """Return a percentage as 0 to 1, None for what is no percentage."""
    if not isinstance(value, int) or not 0 <= value <= 100:
        return None
    return value / 100


def cuda_version(value: Any) -> str:
    """Return 13000 as `13.0` (1000 x major + 10 x minor, nvml.h), "" for none."""
    if not isinstance(value, int) or not 0 < value < 1_000_000:
        return ""
    return f"{value // 1000}.{value % 1000 // 10}"


def process(entry: Any, kind: str) -> DeviceProcess | None:
    """Return a process of a list, None for an entry without a process id."""
    pid = getattr(entry, "pid", None)
    if not isinstance(pid, int) or not 0 < pid < 1 << 32:
        return None
    return DeviceProcess(pid, size_bytes(getattr(entry, "usedGpuMemory", None)), kind)


def instance(entry: Any) -> tuple[int, int] | None:
    """Return (GPU instance, compute instance) of a process, None for one in no MIG instance."""
    gpu = getattr(entry, "gpuInstanceId", None)
    compute = getattr(entry, "computeInstanceId", None)
    if not isinstance(gpu, int) or not isinstance(compute, int):
        return None
    if NOT_AVAILABLE in (gpu, compute):
        return None
    return gpu, compute
