"""A batch job: allocate, copy in, many launches, copy out, free; again for each item.

Usage: python -m sim.workloads.batch --items N
"""

from __future__ import annotations

import ctypes

from sim.workloads.driver import Driver, c_uint64, options


def main() -> None:
    """Work through the items."""
    given = options(__doc__, items=7, launches=31, launch_us=20, item_bytes=1048583)
    driver = Driver(given.device, primary=False)
    function = driver.function(f"busy_{given.launch_us}us")
    host = ctypes.create_string_buffer(given.item_bytes)
    size = ctypes.c_size_t(given.item_bytes)
    for _ in range(given.items):
        device = driver.allocate(given.item_bytes)
        driver.call("cuMemcpyHtoD_v2", device, host, size)
        driver.call("cuMemsetD8Async", device, ctypes.c_ubyte(0), size, None)
        for _ in range(given.launches):
            driver.launch(function, grid=(3, 1, 1), block=(64, 1, 1))
        driver.call("cuMemcpyDtoH_v2", host, device, size)
        driver.call("cuMemFree_v2", c_uint64(device.value))
    driver.call("cuCtxDestroy_v2", driver.context)
    driver.report(items=given.items)


if __name__ == "__main__":
    main()
