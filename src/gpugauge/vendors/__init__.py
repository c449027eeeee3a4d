"""Vendors: what to trace in a driver library, and how it names its results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpugauge.model.function import Function
from gpugauge.vendors.cuda import CUDA_FUNCTIONS
from gpugauge.vendors.cuda.results import CURESULT

OTHER = "other"
"""How a result outside the vendor's list is shown: tenants can return any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One driver library and what is traced in it."""

    name: str
    library_patterns: tuple[str, ...]
    """Regular expressions for the whole file name; a group `version`, where the name has one."""
    functions: tuple[Function, ...]
    watched: str
    """Regular expression: exported names of these families must have a row."""
    watched_known: frozenset[str]
    """Names that look like a watched family and are left out on purpose."""
    results: Mapping[int, str]
    """Names of the results of its functions, by code."""

    def is_library(self, file_name: str) -> bool:
        """Return whether a file of this name is this vendor's driver library."""
        return any(re.fullmatch(pattern, file_name) for pattern in self.library_patterns)

    def library_version(self, file_name: str) -> str:
        """Return the driver version in the file's name, or "" where it has none."""
        for pattern in self.library_patterns:
            match = re.fullmatch(pattern, file_name)
            if match is not None:
                return match.groupdict().get("version") or ""
        return ""

    def numbered(self) -> Iterable[tuple[int, Function]]:
        """Return (row number, row): numbers are positions in the table, from 1."""
        return enumerate(self.functions, start=1)

    def function(self, row: int) -> Function:
        """Return the row of this number.

        Raises:
            IndexError: There is no such row.
        """
        if not 1 <= row <= len(self.functions):
            raise IndexError(f"{self.name} has no row {row}")
        return self.functions[row - 1]

    def unknown_symbols(self, exported: Iterable[str]) -> tuple[str, ...]:
        """Return exported names of a watched family that have no row, sorted.

        A new driver must not blind us silently: these are reported at attach.
        """
        rows = {function.symbol for function in self.functions}
        watched = re.compile(self.watched)
        return tuple(
            sorted(
                name for name in set(exported) - rows - self.watched_known if watched.match(name)
            )
        )

    def result_name(self, code: int) -> str:
        """Return the name of a result, `other` for a code outside the vendor's list."""
        return self.results.get(code, OTHER)


CUDA = Vendor(
    name="cuda",
    library_patterns=(r"libcuda\.so\.(?P<version>\d{3}\.\d+(?:\.\d+)?)", r"libcuda\.so(?:\.1)?"),
    functions=CUDA_FUNCTIONS,
    watched=(
        r"cu(?:Launch|GraphLaunch"
        r"|Memcpy|Memset|MemPrefetch|MemDiscard|MemBatch"
        r"|MemAlloc|MemFree|MemHostAlloc|MemHostRegister|MemHostUnregister|MemCreate|MemRelease"
        r"|MemMap|MemUnmap|Array(?:3D)?Create|ArrayDestroy|MipmappedArray(?:Create|Destroy)"
        r"|\w*(?:Synchronize|Query)(?:_|$)"
        r"|StreamBegin|StreamEnd|StreamWaitValue|StreamWriteValue|StreamBatch"
        r"|GraphAdd\w*Node|GraphInstantiate)"
    ),
    watched_known=frozenset(
        # Capture into the command list of a graphics API (CUDA 13.1): no graph comes of it.
        "cuStream" + end + "CaptureToCig" + twin
        for end in ("Begin", "End")
        for twin in ("", "_ptsz")
    ),
    results=CURESULT,
)

VENDORS: tuple[Vendor, ...] = (CUDA,)
"""A new vendor is one file and one entry here."""
