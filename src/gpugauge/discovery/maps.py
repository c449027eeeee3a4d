r"""Which driver libraries a process maps: a bounded parser of /proc/PID/maps.

A line is `start-end perms offset major:minor inode   path`, numbers in hex but
the inode. Linux writes a newline in a path as `\012` and nothing else escaped,
and appends ` (deleted)` to an unlinked file (proc_pid_maps(5)); both are
ambiguous, so a path is for people and for choosing, never for opening.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpugauge.errors import ForeignDataError
from gpugauge.model.library import FileId

CHUNK_BYTES = 256 * 1024
MAPS_LIMIT_BYTES = 32 * 1024 * 1024
"""Beyond it a process is not read further: 65,530 mappings of usual paths take 8 MiB."""
MAPPINGS_LIMIT = 64
"""Mappings of driver libraries kept of one process."""

_DELETED = b" (deleted)"
_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_LITERAL = re.compile(rb"(?:(?:\\[.+-]|[A-Za-z0-9_-])(?![?*{|]))+")
_LINE = re.compile(
    rb"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) [0-9a-f]{1,16} "
    rb"([0-9a-f]{1,8}):([0-9a-f]{1,8}) ([0-9]{1,20}) +(/[^\n]*)"
)


@dataclass(frozen=True, slots=True)
class Mapping:
    """A file mapped by a process."""

    file_id: FileId
    start: int
    end: int
    """First address behind it: `start-end` in hex names it in /proc/PID/map_files."""
    path: str
    """As the process sees it; undecodable bytes are surrogates."""
    deleted: bool
    """Linux says that the path no longer leads to it."""

    @property
    def map_files_name(self) -> str:
        """Its name in /proc/PID/map_files."""
        return f"{self.start:x}-{self.end:x}"


class LibraryNames:
    """The file names under which a vendor's driver library is mapped.

    Args:
        patterns: Regular expressions for the whole file name.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        raw = [_GROUP_NAME.sub("(?:", pattern).encode() for pattern in patterns]
        either = b"(?:" + b"|".join(raw) + b")"
        self._name = re.compile(either)
        self._lines = re.compile(rb"^[^\n]*/" + either + rb"(?: \(deleted\))?$", re.MULTILINE)
        self._literals = [_literal(pattern) for pattern in raw]

    def match(self, path: bytes) -> bool:
        """Whether the last part of a path is one of the names."""
        return self._name.fullmatch(path.rsplit(b"/", 1)[-1]) is not None

    def lines(self, text: bytes) -> Iterator[bytes]:
        """The lines of /proc/PID/maps that name a library, found without splitting."""
        if any(literal in text for literal in self._literals):
            yield from (found.group() for found in self._lines.finditer(text))


def _literal(pattern: bytes) -> bytes:
    """What every match of a pattern begins with, so that a plain search can rule out most."""
    found = _LITERAL.match(pattern)
    return re.sub(rb"\\(.)", rb"\1", found.group()) if found else b""


def parse_line(line: bytes, *, executable: bool = True) -> Mapping | None:
    """Parse one line of /proc/PID/maps.

    Args:
        line: Without its newline.
        executable: Take executable mappings only.

    Returns:
        None for a mapping of no file, one that is not executable, or bytes of another form.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    start, end, perms, major, minor, inode, path = found.groups()
    if executable and perms[2:3] != b"x":
        return None
    deleted = path.endswith(_DELETED)
    if deleted:
        path = path[: -len(_DELETED)]
    return Mapping(
        file_id=FileId(int(major, 16), int(minor, 16), int(inode)),
        start=int(start, 16),
        end=int(end, 16),
        path=path.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape"),
        deleted=deleted,
    )


def read_mappings(read: Callable[[int], bytes], names: LibraryNames) -> tuple[Mapping, ...]:
    """Read the executable mappings of driver libraries from an open /proc/PID/maps.

    Args:
        read: Returns at most so many of the next bytes, none at the end: read in
            chunks, a huge file costs no memory.
        names: Which files are driver libraries.

    Returns:
        The mappings in the order of their addresses, MAPPINGS_LIMIT at most.

    Raises:
        ForeignDataError: More than MAPS_LIMIT_BYTES; the process may still map a library.
    """
    mappings: list[Mapping] = []
    read_bytes, rest = 0, b""
    while chunk := read(CHUNK_BYTES):
        read_bytes += len(chunk)
        if read_bytes > MAPS_LIMIT_BYTES:
            raise ForeignDataError(
                f"/proc/PID/maps is longer than {MAPS_LIMIT_BYTES} bytes.",
                "The process is reported as unprobed.",
            )
        text = rest + chunk
        cut = text.rfind(b"\n") + 1
        _keep(text[:cut], names, mappings)
        rest = text[cut:]
    _keep(rest, names, mappings)
    return tuple(mappings[:MAPPINGS_LIMIT])


def _keep(text: bytes, names: LibraryNames, mappings: list[Mapping]) -> None:
    for line in names.lines(text):
        mapping = parse_line(line)
        if mapping is not None and names.match(mapping.path.encode("utf-8", "surrogateescape")):
            mappings.append(mapping)
