"""Sites of a whole library."""

import random
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.codec.elf import SECTION_DYNSYM, Elf
from gpugauge.discovery import canary
from gpugauge.discovery.sites import Sites, find_sites
from gpugauge.errors import ForeignDataError
from gpugauge.model.library import SiteKind
from gpugauge.vendors import CUDA
from tests import discovery_library

FUNCTIONS = tuple(function.symbol for function in CUDA.functions)
WATCHED = re.compile(CUDA.watched)


def find(image: bytes) -> Sites:
    return find_sites(Elf(image), FUNCTIONS, WATCHED)


def test_each_shape_gets_its_site() -> None:
    image = discovery_library.image()
    sites = {site.symbol: site for site in find(image).sites}
    assert {name: site.kind for name, site in sites.items() if name != "cuInit"} == {
        "cuLaunchKernel": SiteKind.JUMP,
        "cuMemAlloc_v2": SiteKind.PUSH,
        "cuMemFree_v2": SiteKind.NONE,
        "cuStreamSynchronize": SiteKind.JUMP,
    }
    assert "allow-list" in sites["cuMemFree_v2"].reason
    launch = sites["cuLaunchKernel"].file_offset
    assert image[launch] == 0x74
    assert image[launch - 10 : launch - 8] == b"\x81\x3d"
    allocate = sites["cuMemAlloc_v2"].file_offset
    assert image[allocate - 4 : allocate + 2] == bytes.fromhex("f30f1efa4157")


def test_aliases_at_one_address_are_attached_once() -> None:
    offsets = [site.file_offset for site in find(discovery_library.image()).sites]
    assert len(offsets) == len(set(offsets))


def test_functions_of_tomorrow_are_reported() -> None:
    found = find(discovery_library.image())
    assert found.unknown_symbols == ("cuLaunchOfTomorrow",)
    assert found.exported == len(discovery_library.FUNCTIONS) + len(discovery_library.ALIASES)
    assert len(found.build_id) == 40
    known = find_sites(
        Elf(discovery_library.image()), FUNCTIONS, WATCHED, (), {"cuLaunchOfTomorrow"}
    )
    assert known.unknown_symbols == ()


def test_the_canary_is_a_function_that_is_not_traced() -> None:
    image = discovery_library.image()
    chosen = find(image).canary
    assert chosen is not None
    assert chosen.symbol not in FUNCTIONS
    assert chosen.kind is SiteKind.PUSH
    preferred = find_sites(Elf(image), FUNCTIONS, WATCHED, ("cuLaunchKernel", "cuProfilerStart"))
    assert preferred.canary is not None
    assert preferred.canary.symbol == "cuProfilerStart"


@given(st.sets(st.text("abc", min_size=1, max_size=3)), st.sets(st.text("abc", max_size=3)))
def test_the_choice_of_a_canary_depends_on_names_alone(
    exported: set[str], traced: set[str]
) -> None:
    shuffled = random.Random(7).sample(sorted(exported), len(exported))
    assert canary.choose(shuffled, traced) == canary.choose(sorted(exported), traced)
    assert set(canary.choose(shuffled, traced, ("a", "b"))) == exported - traced


def test_a_site_never_lies_in_the_next_function() -> None:
    """A function of long nops falls through into the next one, whose site would count both."""
    image = bytearray(discovery_library.image())
    elf = Elf(bytes(image))
    symbols = {each.name: (index, each) for index, each in enumerate(elf.symbols(SECTION_DYNSYM))}
    index, free = symbols["cuMemFree_v2"]
    room = symbols["cuStreamSynchronize"][1].value - free.value
    assert room == 16  # so that the next function's jump would be within the window
    start = elf.file_offset(free.value)
    assert start is not None
    image[start : start + room] = bytes.fromhex("0f1f440000" * 2 + "660f1f440000")
    table = next(each for each in elf.sections if each.type == SECTION_DYNSYM)
    struct.pack_into("<Q", image, table.offset + 24 * index + 16, 0)  # its size is not told
    site = next(site for site in find(bytes(image)).sites if site.symbol == "cuMemFree_v2")
    assert (site.kind, site.reason) == (SiteKind.NONE, "no emulated instruction within 16 bytes")


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (18, 183, "not a shared library for x86-64"),
        (18, 3, "not a shared library for x86-64"),
        (16, 2, "not a shared library for x86-64"),
    ],
)
def test_other_machines_and_types_are_refused(at: int, value: int, sentence: str) -> None:
    image = bytearray(discovery_library.image())
    struct.pack_into("<H", image, at, value)
    with pytest.raises(ForeignDataError, match=sentence):
        find(bytes(image))


def mutate(image: bytes, chance: random.Random) -> bytes:
    """Change some bytes of the places that steer a parser, or cut the file."""
    mutant = bytearray(image)
    elf = Elf(image)
    tables = [(0, 64), (64, 56 * len(elf.segments))]
    tables += [(each.offset, each.size) for each in elf.sections if each.type in (3, 6, 7, 11)]
    tables += [(len(image) - 64 * len(elf.sections), 64 * len(elf.sections))]
    for _ in range(chance.choice((1, 2, 5, 11))):
        start, size = chance.choice(tables)
        at = start + chance.randrange(max(size, 1))
        width = chance.choice((1, 2, 4, 8))
        value = chance.choice((0, 1, 0x7F, (1 << 8 * width) - 1, chance.randrange(1 << 8 * width)))
        mutant[at : at + width] = value.to_bytes(width, "little")
    if chance.random() < 0.1:
        del mutant[chance.randrange(len(mutant)) :]
    return bytes(mutant)


def outcomes(count: int, seed: int) -> tuple[int, int]:
    """Search the sites of mutants: how many were read, and how many refused."""
    image, chance = discovery_library.image(), random.Random(seed)
    read = refused = 0
    for _ in range(count):
        mutant = mutate(image, chance)
        try:
            found = find(mutant)
        except ForeignDataError:
            refused += 1
            continue
        read += 1
        for site in (*found.sites, *((found.canary,) if found.canary else ())):
            if site.kind is SiteKind.NONE:
                assert site.reason
            else:
                assert 0 <= site.file_offset < len(mutant)
    return read, refused


def test_mutations_of_a_library_are_read_or_refused() -> None:
    read, refused = outcomes(499, seed=1)
    assert read > 50
    assert refused > 50


@pytest.mark.long
def test_ten_thousand_mutations_of_a_library_are_read_or_refused() -> None:
    read, refused = outcomes(10_007, seed=2)
    assert read > 1000
    assert refused > 1000


@given(st.binary(max_size=400))
def test_any_bytes_are_refused(image: bytes) -> None:
    with pytest.raises(ForeignDataError):
        find(image)
