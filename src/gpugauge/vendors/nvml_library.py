"""NVIDIA's management library: loading it from where the driver is, and letting go of it.

The binding (`pynvml`, NVIDIA's nvidia-ml-py) loads `libnvidia-ml.so.1` by name,
so the dynamic loader looks where it always does: libraries of that name already
loaded, LD_LIBRARY_PATH as it was when this process started, the loader's cache,
/lib and /usr/lib. A driver installed elsewhere (a driver container's root, say
/run/nvidia/driver/usr/lib/x86_64-linux-gnu) needs its path: the file is then
loaded from exactly there, through the binding's own loader.

nvmlShutdown closes the driver's device files and leaves the library mapped.
That is not enough here: a mapped file pins its mount, and a library that
outlived an upgrade of the driver answers "version mismatch" for ever. So the
library is unmapped too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

NAME = "libnvidia-ml.so.1"


class NvmlLibrary:
    """The library behind the binding: at most one at a time in a process."""

    def __init__(self, api: Any, path: str | Callable[[], str] = "") -> None:
        """Take the binding and where to load from.

        Args:
            api: The module `pynvml`, or a stub with its names.
            path: The library's file; "" leaves the search to the dynamic loader. Or what finds
                it, asked at each opening: the driver may come later, or from another place.
        """
        self._api = api
        self._path = path
        self._opened = False

    @property
    def opened(self) -> bool:
        """Whether the library is initialized."""
        return self._opened

    def open(self) -> None:
        """Load and initialize the library, once.

        Raises:
            NVMLError: Of the binding: not found, driver not loaded, versions differ.
        """
        if self._opened:
            return
        path = self._path if isinstance(self._path, str) else self._path()
        if path and self._api.nvmlLib is None:
            try:
                self._api.nvmlLib = self._api.CDLL(path)
            except OSError:
                raise self._api.NVMLError(self._api.NVML_ERROR_LIBRARY_NOT_FOUND) from None
        self._api.nvmlInit()
        self._opened = True

    def close(self) -> None:
        """Shut the library down and unmap it; what fails on the way does not stop the rest."""
        if self._opened:
            self._opened = False
            # It fails when the driver is gone, and its handle with it.
            with contextlib.suppress(self._api.NVMLError):
                self._api.nvmlShutdown()
        self._unmap()

    def _unmap(self) -> None:
        library = self._api.nvmlLib
        if library is None:
            return
        # The binding keeps pointers into the library: they go first.
        self._api._nvmlGetFunctionPointer_cache.clear()
        self._api.nvmlLib = None
        close = self._api.CDLL(None).dlclose
        close.argtypes = [self._api.c_void_p]
        close(library._handle)
