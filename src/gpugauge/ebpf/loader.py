"""Loads BPF objects into Linux: maps, types, programs. Nothing is pinned.

Whatever is loaded lives as long as its descriptors, so it is gone when the
process ends, however it ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType

from gpugauge.ebpf import kfunc, syscalls
from gpugauge.ebpf.layout import Layout
from gpugauge.ebpf.link_editor import Code, LinkEditor
from gpugauge.ebpf.maps import Map
from gpugauge.ebpf.object import BpfObject, Function, MapDefinition, loadable_btf
from gpugauge.ebpf.section import ProgramKind, kind_of
from gpugauge.ebpf.syscalls import BpfCallError, Command
from gpugauge.ebpf.verifier import VerifierError
from gpugauge.errors import ForeignDataError, UnsupportedError

LOG_BYTES = (1 << 16, 1 << 20, 1 << 24)

_TYPES_WITHOUT_BTF = frozenset({3, 4, 22, 23, 27})  # program and perf arrays, queue, stack, ring


@dataclass(slots=True)
class Program:
    """A loaded program."""

    name: str
    fd: int
    kind: ProgramKind

    def close(self) -> None:
        """Close the descriptor; the program lives on while a link uses it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Loaded:
    """Maps and programs of one object, in Linux."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.maps: dict[str, Map] = {}
        self.programs: dict[str, Program] = {}
        self._btf_fd = -1

    @property
    def memory_bytes(self) -> int:
        """What Linux charges for all maps."""
        return sum(each.memory_bytes() or 0 for each in self.maps.values())

    def close(self) -> None:
        """Close all descriptors. Links are the caller's: close them first."""
        for program in self.programs.values():
            program.close()
        for each in self.maps.values():
            each.close()
        if self._btf_fd >= 0:
            os.close(self._btf_fd)
            self._btf_fd = -1

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(
    data: bytes,
    programs: Collection[str] | None = None,
    rodata: Mapping[str, int] | None = None,
    map_entries: Mapping[str, int] | None = None,
    sections: Mapping[str, str] | None = None,
) -> Loaded:
    """Load an object.

    Args:
        data: The object file.
        programs: Which programs to load; None is all.
        rodata: Values of `const volatile` settings by name, set before loading.
        map_entries: max_entries by map, in place of what the object says.
        sections: A program's section name by program, in place of the object's: the same
            code can be loaded for another way of attaching.

    Raises:
        ForeignDataError: The object is off, or lacks something that was named.
        VerifierError: Linux refuses a program; `log` tells why.
        UnsupportedError: Linux refuses a map or types, or lacks a function a program calls.
    """
    bpf_object = BpfObject(data)
    chosen = _chosen(bpf_object, programs)
    definitions = bpf_object.maps(rodata or {}, map_entries or {})
    _raise_memory_limit()
    loaded = Loaded(Layout(bpf_object.btf))
    try:
        loaded._btf_fd = _load_btf(loadable_btf(bpf_object))
        for definition in definitions.values():
            loaded.maps[definition.name] = _create_map(definition, loaded._btf_fd)
        fds = {name: each.fd for name, each in loaded.maps.items()}
        names = LinkEditor(bpf_object, fds, {})
        wanted = {name for function in chosen for name in names.kfuncs(function)}
        editor = LinkEditor(bpf_object, fds, kfunc.ids(wanted))
        for function in chosen:
            section = (sections or {}).get(function.name, bpf_object.section_name(function))
            kind = kind_of(section)
            fd = _load_program(
                function.name, kind, editor.link(function), bpf_object.license, loaded._btf_fd
            )
            loaded.programs[function.name] = Program(function.name, fd, kind)
    except BaseException:
        loaded.close()
        raise
    return loaded


def _chosen(bpf_object: BpfObject, programs: Collection[str] | None) -> list[Function]:
    if programs is None:
        return list(bpf_object.programs.values())
    missing = sorted(set(programs) - bpf_object.programs.keys())
    if missing:
        raise ForeignDataError(f"The BPF object has no program {missing[0]}.")
    return [bpf_object.programs[name] for name in dict.fromkeys(programs)]


def _raise_memory_limit() -> None:
    """Before Linux 5.11 maps count against RLIMIT_MEMLOCK; later this changes nothing."""
    try:
        resource.setrlimit(
            resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
    except (ValueError, OSError):
        return


def _load_btf(data: bytes) -> int:
    buffer = syscalls.buffer_of(data)
    log = ctypes.create_string_buffer(LOG_BYTES[0])
    plain = syscalls.pack("QQIIIxxxx", syscalls.address(buffer), 0, len(data), 0, 0)
    try:
        return syscalls.bpf(Command.BTF_LOAD, plain)
    except BpfCallError as first:
        again = syscalls.pack(
            "QQIIIxxxx",
            syscalls.address(buffer),
            syscalls.address(log),
            len(data),
            len(log),
            1,
        )
        try:
            return syscalls.bpf(Command.BTF_LOAD, again)
        except BpfCallError:
            raise VerifierError(
                "types (BTF)", syscalls.errno_text(first), log.value.decode("utf-8", "replace")
            ) from None


def _create_map(definition: MapDefinition, btf_fd: int) -> Map:
    entries = definition.max_entries
    with_btf = definition.type not in _TYPES_WITHOUT_BTF and bool(definition.value_type)
    try:
        fd = _create(definition, entries, btf_fd if with_btf else None)
    except BpfCallError as error:
        if not with_btf or error.errno == errno.EPERM:
            raise _map_error(definition, error) from None
        try:  # some types of map take no types
            fd = _create(definition, entries, None)
        except BpfCallError as second:
            raise _map_error(definition, second) from None
    created = Map(fd, replace(definition, max_entries=entries))
    try:
        if definition.content is not None:
            created.update(bytes(4), definition.content)
        if definition.frozen:
            syscalls.bpf(Command.MAP_FREEZE, syscalls.pack("I", fd))
    except BpfCallError as error:
        created.close()
        raise _map_error(definition, error) from None
    return created


def _create(definition: MapDefinition, entries: int, btf_fd: int | None) -> int:
    attribute = syscalls.pack(
        "IIIIIIi16sIIIIIQ",
        definition.type,
        definition.key_size,
        definition.value_size,
        entries,
        definition.flags,
        0,
        0,
        short_name(definition.name),
        0,
        btf_fd or 0,
        definition.key_type if btf_fd is not None else 0,
        definition.value_type if btf_fd is not None else 0,
        0,
        definition.extra,
    )
    return syscalls.bpf(Command.MAP_CREATE, attribute)


def _map_error(definition: MapDefinition, error: OSError) -> UnsupportedError:
    step = ""
    if error.errno == errno.EPERM:
        step = "Run as root, or with the capabilities BPF and PERFMON."
    elif error.errno == errno.ENOMEM:
        step = "Give the agent more memory: maps are charged to its cgroup."
    return UnsupportedError(
        f"Linux did not make the BPF map {definition.name}: {syscalls.errno_text(error)}.", step
    )


def _load_program(name: str, kind: ProgramKind, code: Code, license_: str, btf_fd: int) -> int:
    buffers: Iterable[ctypes.Array[ctypes.c_char]] = [
        syscalls.buffer_of(each)
        for each in (
            code.instructions,
            license_.encode() + b"\0",
            code.function_info,
            code.line_info,
        )
    ]
    instructions, license_text, functions, lines = (syscalls.address(each) for each in buffers)

    def attribute(log: ctypes.Array[ctypes.c_char] | None) -> bytes:
        return syscalls.pack(
            "IIQQIIQII16sIIIIQIIQIIIIQ",
            kind.program_type,
            len(code.instructions) // 8,
            instructions,
            license_text,
            1 if log is not None else 0,
            len(log) if log is not None else 0,
            syscalls.address(log) if log is not None else 0,
            0,
            0,
            short_name(name),
            0,
            kind.expected_attach_type,
            btf_fd,
            code.function_info_size,
            functions,
            len(code.function_info) // code.function_info_size,
            code.line_info_size,
            lines,
            len(code.line_info) // code.line_info_size,
            0,
            0,
            0,
            0,
        )

    for _ in range(5):
        try:
            return syscalls.bpf(Command.PROGRAM_LOAD, attribute(None))
        except BpfCallError as error:
            first = error
            if error.errno != errno.EAGAIN:  # the verifier was interrupted by a signal
                break
    text = ""
    for size in LOG_BYTES:
        log = ctypes.create_string_buffer(size)
        try:
            return syscalls.bpf(Command.PROGRAM_LOAD, attribute(log))
        except BpfCallError as error:
            text = log.value.decode("utf-8", "replace")
            if error.errno != errno.ENOSPC:
                break
    raise VerifierError(name, syscalls.errno_text(first), text)


def short_name(name: str) -> bytes:
    """Return a name as Linux keeps it: 15 bytes of letters, digits, `_` and `.`."""
    kept = "".join(each if each.isalnum() or each in "_." else "_" for each in name)
    return kept.encode("ascii", "replace")[:15]
