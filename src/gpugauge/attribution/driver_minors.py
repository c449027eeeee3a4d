"""Which GPU has which device file, as the NVIDIA driver tells in procfs."""

from __future__ import annotations

from pathlib import Path

from gpugauge.attribution.device_id import parse_device_id

FILE_LIMIT_BYTES = 4_096
GPUS_LIMIT = 64


def driver_minors(proc: str = "/proc") -> dict[int, str]:
    """Return the UUID of each GPU by the N of its `/dev/nvidiaN`; empty without the driver.

    Read from `driver/nvidia/gpus/ADDRESS/information`, lines `GPU UUID:` and
    `Device Minor:`.
    """
    found: dict[int, str] = {}
    try:
        folders = sorted(Path(proc, "driver/nvidia/gpus").iterdir())[:GPUS_LIMIT]
    except OSError:
        return found
    for folder in folders:
        try:
            with (folder / "information").open("rb") as file:
                text = file.read(FILE_LIMIT_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        lines = (line.partition(":") for line in text.splitlines())
        values = {name.strip(): value.strip() for name, _, value in lines}
        minor = values.get("Device Minor", "")
        uuid = parse_device_id(values.get("GPU UUID", "")).uuid
        if minor.isdigit() and uuid:
            found[int(minor)] = uuid
    return found
