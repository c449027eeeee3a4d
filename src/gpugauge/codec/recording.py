"""A recording: a header line, then one snapshot a line, as JSON; `.gz` compresses it.

Each line is flushed, so a recording whose writer was killed is readable up to
its last whole line.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from gpugauge.codec.snapshot import LIMIT_BYTES, dump_snapshot, load_snapshot
from gpugauge.errors import ForeignDataError, SettingError, UnavailableError
from gpugauge.model.snapshot import SNAPSHOT_VERSION, Snapshot

RECORDING_VERSION = 1
DEFAULT_LIMIT_BYTES = 1024 * 1024 * 1024
READ_LIMIT_BYTES = 16 * 1024 * 1024 * 1024
"""Uncompressed bytes read of one recording: a small file can unpack to an endless one."""
HEADER_LIMIT_BYTES = 4096


class RecordingWriter:
    """Writes snapshots to a new file, up to a number of bytes."""

    def __init__(self, path: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Make the file.

        Args:
            path: must not exist yet; a name that ends in `.gz` is compressed.
            limit_bytes: of the file as it lies on disk.

        Raises:
            SettingError: the file exists.
            UnavailableError: the file cannot be made.
        """
        try:
            self._file = path.open("xb")
        except FileExistsError as error:
            raise SettingError(
                f"{path} exists, and a recording is not written over another file.",
                "Give a new name.",
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"{path} cannot be written: {error.strerror}.", "Give a path that can be."
            ) from error
        self._stream: IO[bytes] = self._file
        if path.suffix == ".gz":
            self._stream = gzip.GzipFile(fileobj=self._file, mode="wb", mtime=0)  # type: ignore[assignment]
        self._limit_bytes = limit_bytes
        self.snapshots = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the file so far."""
        return self._file.tell()

    def write(self, snapshot: Snapshot) -> bool:
        """Add a snapshot; False when the limit is reached and it was not written.

        Raises:
            UnavailableError: the file system refused it, for one when it is full.
        """
        line = dump_snapshot(snapshot) + b"\n"
        if self.snapshots == 0:
            line = _header(snapshot) + line
        # Uncompressed length: compressed lines are shorter, so the limit holds.
        if self.size_bytes + len(line) > self._limit_bytes:
            return False
        try:
            self._stream.write(line)
            self._stream.flush()
            self._file.flush()
        except OSError as error:
            raise UnavailableError(
                f"The recording cannot be continued: {error.strerror}.", "Free some space."
            ) from error
        self.snapshots += 1
        return True

    def close(self) -> None:
        """Finish the file."""
        try:
            self._stream.close()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RecordingReader:
    """Iterates over the snapshots of a recording; bad lines are counted and passed over."""

    def __init__(self, path: Path) -> None:
        """Open a recording.

        Raises:
            UnavailableError: the file cannot be read.
            ForeignDataError: it is not a recording, or one of a newer version.
        """
        self._path = path
        self.bad_lines = 0
        self.snapshots = 0
        self._read_bytes = 0
        try:
            self._file = path.open("rb")
            magic = self._file.read(2)
            self._file.seek(0)
        except OSError as error:
            raise UnavailableError(
                f"{path} cannot be read: {error.strerror}.", "Check the path."
            ) from error
        self._stream: IO[bytes] = self._file
        if magic == b"\x1f\x8b":
            self._stream = gzip.GzipFile(fileobj=self._file)  # type: ignore[assignment]
        try:
            self.agent_version = self._read_header()
        except ForeignDataError:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[Snapshot]:
        try:
            while (line := self._line(LIMIT_BYTES)) is not None:
                try:
                    snapshot = load_snapshot(line)
                except ForeignDataError:
                    self.bad_lines += 1
                    continue
                self.snapshots += 1
                yield snapshot
        finally:
            self._file.close()

    def _line(self, limit_bytes: int) -> bytes | None:
        """Return the next whole line, None at the end."""
        while self._read_bytes < READ_LIMIT_BYTES:
            try:
                line = self._stream.readline(limit_bytes)
            except (OSError, EOFError, zlib.error):
                self.bad_lines += 1  # a compressed file that stops or is damaged
                return None
            self._read_bytes += len(line)
            if not line:
                return None
            if line.endswith(b"\n"):
                return line
            self.bad_lines += 1  # cut off by a killed writer, or longer than any snapshot
            if len(line) == limit_bytes and not self._skip_line():
                return None
        return None

    def _skip_line(self) -> bool:
        while self._read_bytes < READ_LIMIT_BYTES:
            try:
                part = self._stream.readline(LIMIT_BYTES)
            except (OSError, EOFError, zlib.error):
                return False
            self._read_bytes += len(part)
            if not part or part.endswith(b"\n"):
                return bool(part)
        return False

    def _read_header(self) -> str:
        line = self._line(HEADER_LIMIT_BYTES)
        try:
            header = json.loads(line or b"")
            version, agent = header["gpugauge_recording"], header["agent_version"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._refused("is not a recording") from error
        if version != RECORDING_VERSION or not isinstance(agent, str):
            raise self._refused(f"is a recording of version {version!r:.20}")
        return agent

    def _refused(self, what: str) -> ForeignDataError:
        return ForeignDataError(
            f"{self._path} {what}.",
            f"This gpugauge reads version {RECORDING_VERSION}, as `gpugauge record` writes it.",
        )


def _header(snapshot: Snapshot) -> bytes:
    header = {
        "gpugauge_recording": RECORDING_VERSION,
        "snapshot_version": SNAPSHOT_VERSION,
        "agent_version": snapshot.agent_version,
        "node": snapshot.node,
        "simulated": snapshot.simulated,
    }
    return json.dumps(header, separators=(",", ":")).encode() + b"\n"
