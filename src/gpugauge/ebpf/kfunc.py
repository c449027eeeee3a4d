"""Where the functions of Linux that BPF programs call by name are: ids in its BTF."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from gpugauge.codec import linux_btf

LINUX_BTF = Path("/sys/kernel/btf/vmlinux")


@lru_cache(maxsize=8)
def _ids(names: frozenset[str]) -> tuple[tuple[str, int], ...]:
    try:
        data = LINUX_BTF.read_bytes()
    except OSError:
        return ()
    return tuple(linux_btf.function_ids(data, names).items())


def ids(names: Collection[str]) -> dict[str, int]:
    """Return the BTF ids of functions of the running Linux.

    A name that it does not have, or a Linux without BTF, is left out. The
    megabytes of BTF are read for the call and dropped.
    """
    return dict(_ids(frozenset(names))) if names else {}
