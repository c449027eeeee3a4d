"""Handle -> name of a GPU function: rare calls, (*handle, module or library, name)."""

from __future__ import annotations

from gpugauge.model.abi import Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, under

# The handle is known at return. cuKernelGetFunction is (*function, kernel).
NAMES: Rows = under(
    Function(symbol="cuModuleGetFunction", slot=Slot.OTHER, pointer_arg=1),
    "cuLibraryGetKernel",
    "cuKernelGetFunction",
)
