"""Real BPF: root and Linux 6.6 or newer. What is missing is a failure here, not a skip."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import build_bpf

from gpugauge.codec.elf import SECTION_DYNSYM, Elf
from gpugauge.ebpf.loader import Loaded, load

HERE = Path(__file__).parent
PLUS = {"push_a": 101, "push_b": 103, "push_c": 107, "jump_a": 109, "jump_b": 113, "nap_a": 127}
JUMP_SITE = 10  # the `je` of the entry shape of older drivers


@pytest.fixture(scope="session")
def empty_object(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The counting programs."""
    target = tmp_path_factory.mktemp("objects") / "empty.o"
    build_bpf.compile_object(build_bpf.SOURCES["empty"], target, "x86_64")
    return target.read_bytes()


@pytest.fixture(scope="session")
def features_object(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Everything the loader handles, in one object."""
    target = tmp_path_factory.mktemp("objects") / "features.o"
    build_bpf.compile_object(HERE / "features.bpf.c", target, "x86_64")
    return target.read_bytes()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the entry shapes of real drivers."""
    target = tmp_path_factory.mktemp("library") / "libtarget.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", target, HERE / "target.c"], check=True)
    return target


@pytest.fixture(scope="session")
def offsets(library: Path) -> dict[str, int]:
    """File offset of the probe site of each function."""
    elf = Elf(library.read_bytes())
    found = {}
    for symbol in elf.symbols(SECTION_DYNSYM):
        if symbol.name in PLUS:
            offset = elf.file_offset(symbol.value)
            assert offset is not None
            found[symbol.name] = offset + (JUMP_SITE if symbol.name.startswith("jump") else 0)
    assert found.keys() == PLUS.keys()
    return found


@pytest.fixture
def loaded(empty_object: bytes) -> Iterator[Loaded]:
    """The counting programs, loaded."""
    with load(empty_object) as programs:
        yield programs


class Target:
    """The library, called from this process."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._many = self._library.many
        self._many.restype = ctypes.c_long
        self._many.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]

    def nap(self, milliseconds: int) -> None:
        """Make one call that takes this long, and check its answer."""
        function = self._library.nap_a
        function.restype = ctypes.c_long
        function.argtypes = [ctypes.c_long]
        assert function(milliseconds) == milliseconds + PLUS["nap_a"]

    def code(self, name: str, size: int) -> bytes:
        """Return the bytes of a function as they are in memory now."""
        address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert address is not None
        return ctypes.string_at(address, size)

    def call(self, name: str, count: int) -> None:
        """Call a function `count` times and check every answer."""
        function = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
        assert self._many(function, count, PLUS[name]) == 0


@pytest.fixture
def target(library: Path) -> Target:
    return Target(library)


@pytest.fixture
def child_command(library: Path) -> list[str]:
    """Start of a command that calls the library in another process: NAME COUNT ..."""
    code = (
        "import sys; sys.path[:0] = sys.argv[2:4]\n"
        "from tests.bpf.conftest import Target\nfrom pathlib import Path\n"
        "t = Target(Path(sys.argv[1]))\n"
        "for name, count in zip(sys.argv[4::2], sys.argv[5::2]): t.call(name, int(count))\n"
    )
    root = HERE.parent.parent
    return [sys.executable, "-c", code, str(library), str(root), str(root / "src")]
