"""The Linux log, as far as it speaks of GPUs: read without waiting, within bounds.

Records of /dev/kmsg are `priority,sequence,microseconds,flags;text`
(Documentation/ABI/testing/dev-kmsg); lines that begin with a space belong to the one before.
"""

from __future__ import annotations

import errno
import os
import time

from gpugauge.discovery.names import clean
from gpugauge.errors import UnavailableError
from gpugauge.explain.evidence import LogLine

READ_BYTES = 8_192
"""A read of a smaller buffer than the record fails."""
TOTAL_LIMIT_BYTES = 16 << 20
"""The ring is 4 MiB at most where it is configured so."""
LINES_LIMIT = 512
TEXT_LIMIT = 256
WORDS = ("NVRM", "nvidia", "avc:", "nouveau")


def read_log(path: str, boot_unix_ns: int | None = None) -> tuple[LogLine, ...]:
    """Return the newest lines that concern GPUs, oldest first.

    Args:
        path: /dev/kmsg.
        boot_unix_ns: When the clock of the log was 0; None: now minus the time since boot.

    Raises:
        UnavailableError: it cannot be read; it needs CAP_SYSLOG where dmesg_restrict is 1.
    """
    if boot_unix_ns is None:
        boot_unix_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return parse(_records(path), boot_unix_ns)


def parse(data: bytes, boot_unix_ns: int) -> tuple[LogLine, ...]:
    """Return the lines of records that concern GPUs."""
    found = []
    for record in data.split(b"\n"):
        head, separator, body = record.partition(b";")
        fields = head.split(b",")
        if not separator or record[:1] == b" " or len(fields) < 3:
            continue
        line = body.decode("utf-8", "replace")
        if not fields[2].isdigit() or len(fields[2]) > 18 or not any(w in line for w in WORDS):
            continue
        found.append(LogLine(boot_unix_ns + int(fields[2]) * 1_000, clean(line, TEXT_LIMIT)))
    return tuple(found[-LINES_LIMIT:])


def _records(path: str) -> bytes:
    data = bytearray()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read ({error.strerror})") from None
    try:
        while len(data) < TOTAL_LIMIT_BYTES:
            try:
                chunk = os.read(descriptor, READ_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue  # it was overwritten while we read: the next read goes on
                if error.errno in (errno.EAGAIN, errno.EINVAL):
                    break
                raise UnavailableError(f"{path} cannot be read ({error.strerror})") from None
            if not chunk:
                break
            data += chunk
    finally:
        os.close(descriptor)
    return bytes(data)
