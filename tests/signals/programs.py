"""Random programs of driver calls, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

Step = tuple[int, str, int, int]
Program = tuple[Step, ...]

# How often each operation is drawn.
OPERATIONS = (
    ("retain", 2), ("release", 1), ("reset", 1), ("create", 3), ("destroy", 2), ("set", 6),
    ("push", 3), ("pop", 3), ("green", 2), ("view", 1), ("green_destroy", 1),
    ("stream", 5), ("green_stream", 1), ("stream_destroy", 2), ("stream_sync", 8),
    ("stream_query", 3), ("ctx_sync", 4), ("event", 2), ("record", 5), ("event_sync", 4),
    ("event_destroy", 1),
    ("launch", 14), ("copy", 6), ("allocate", 10), ("free", 7),
    ("chunk", 3), ("chunk_release", 3), ("map", 3), ("unmap", 2), ("hold", 1),
    ("begin", 3), ("end", 3), ("graph", 1), ("node", 3), ("child", 1), ("node_destroy", 1),
    ("clone", 1), ("instantiate", 3), ("replay", 4), ("update", 1),
    ("fail", 4), ("thread_end", 1),
)  # fmt: skip
NAMES = tuple(name for name, weight in OPERATIONS for _ in range(weight))
SIZES = (0, 1, 2, 3, 5, 7, 11, 17, 33, 257, 4099, 65537, 1048573)
BEGINNINGS: tuple[Program, ...] = (
    (),
    ((0, "retain", 0, 1), (0, "set", 0, 1), (0, "stream", 0, 1)),
    ((0, "retain", 0, 1), (0, "retain", 1, 1), (0, "set", 0, 1), (1, "set", 1, 1)),
)

steps = st.tuples(
    st.integers(0, 2), st.sampled_from(NAMES), st.integers(0, 97), st.sampled_from(SIZES)
)
programs: st.SearchStrategy[Program] = st.builds(
    lambda beginning, rest: (*beginning, *rest),
    st.sampled_from(BEGINNINGS),
    st.lists(steps, min_size=1, max_size=60),
)
