"""Random snapshots, written from the types of the model like the codec itself."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from gpugauge.model.snapshot import SNAPSHOT_VERSION, Snapshot

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(-1e299, 1e299),
    bool: st.booleans(),
    str: st.text(max_size=12),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a type of the model."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*(st.none() if part is type(None) else values(part) for part in parts))
    if origin is tuple and parts[-1] is Ellipsis:
        return st.lists(values(parts[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(values(parts[0]), st.integers(-(2**31), 2**31 - 1))
    if origin is Mapping:
        return st.dictionaries(values(parts[0]), values(parts[1]), max_size=3)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, vars(sys.modules[hint.__module__]))
        return st.builds(hint, **{f.name: values(hints[f.name]) for f in dataclasses.fields(hint)})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return SCALARS[hint]


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Return a strategy for snapshots of the current version."""
    return values(Snapshot).map(lambda made: dataclasses.replace(made, version=SNAPSHOT_VERSION))
