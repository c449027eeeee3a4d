"""Short programs on the driver API. Each prints on exit one line of JSON with its own counts."""

NAMES = (
    "batch",
    "callbacks",
    "events",
    "fork",
    "graphs",
    "inference",
    "saturate",
    "short_lived",
    "streams",
    "threads",
    "training",
)
