"""Where members of structs of the running Linux lie, from its own BTF."""

from __future__ import annotations

from gpugauge.codec import linux_btf
from gpugauge.ebpf.kfunc import LINUX_BTF
from gpugauge.errors import ForeignDataError


def thread_count_offsets() -> dict[str, int]:
    """Return the settings of the BPF programs that lead to a process's live threads.

    task_struct.signal and signal_struct.live (linux/sched.h, linux/sched/signal.h)
    tell at a thread's exit whether it is the last one. Both are 0 where Linux
    has no BTF: then the agent finds ended processes itself.
    """
    unknown = {"task_signal_offset": 0, "signal_live_offset": 0}
    try:
        data = LINUX_BTF.read_bytes()
        signal = linux_btf.member_offset(data, "task_struct", "signal")
        live = linux_btf.member_offset(data, "signal_struct", "live")
    except (OSError, ForeignDataError):
        return unknown
    if not signal or live is None:
        return unknown
    return {"task_signal_offset": signal, "signal_live_offset": live}
