"""Snapshots as JSON: exact both ways, and nothing but a ForeignDataError on anything off."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpugauge.codec.snapshot import LIMIT_BYTES, dump_snapshot, load_snapshot
from gpugauge.errors import ForeignDataError
from gpugauge.model.abi import Slot
from gpugauge.model.snapshot import Snapshot
from tests.support.random_snapshots import snapshots
from tests.support.snapshots import busy_snapshot


@given(snapshots())
def test_round_trip_is_exact(snapshot: Snapshot) -> None:
    data = dump_snapshot(snapshot)
    assert b"\n" not in data
    assert load_snapshot(data) == snapshot


def test_enums_go_by_name_and_pairs_as_a_path() -> None:
    plain = json.loads(dump_snapshot(busy_snapshot()))
    assert plain["series"][0]["operations"]["LAUNCH"]["calls"] == 101
    assert plain["series"][0]["errors"] == {"ALLOCATE/2": 1, "LAUNCH/-1": 3}
    assert plain["series"][2]["memory"] is None
    assert plain["series"][0]["owner"]["scope"] == "POD"


def test_enum_members_keep_their_type() -> None:
    loaded = load_snapshot(dump_snapshot(busy_snapshot()))
    assert all(type(slot) is Slot for slot in loaded.series[0].operations)


def test_fields_and_members_of_a_newer_version_are_passed_over() -> None:
    snapshot = busy_snapshot()
    plain = json.loads(dump_snapshot(snapshot))
    plain["series"][0]["operations"]["TELEPORT"] = {"calls": 5}
    plain["series"][0]["errors"]["TELEPORT/3"] = 5
    plain["added"] = {"later": [1]}
    plain["agent"]["added"] = 1.5
    assert load_snapshot(json.dumps(plain).encode()) == snapshot


def test_a_field_with_a_default_may_be_missing() -> None:
    plain = json.loads(dump_snapshot(busy_snapshot()))
    del plain["processes"][0]["tenant_supplied"]
    assert load_snapshot(json.dumps(plain).encode()).processes[0].tenant_supplied is False


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("version",), None),
        (("number",), "13"),
        (("number",), True),
        (("number",), 1.5),
        (("number",), 1 << 64),
        (("node",), "x" * 4097),
        (("node",), None),
        (("simulated",), 0),
        (("series",), {}),
        (("series", 0), []),
        (("series", 0, "operations"), []),
        (("series", 0, "errors"), {"LAUNCH": 1}),
        (("series", 0, "errors"), {"LAUNCH/x": 1}),
        (("series", 0, "errors"), {"LAUNCH/" + "9" * 30: 1}),
        (("series", 0, "owner", "scope"), "NOWHERE"),
        (("devices", 0, "utilization_ratio"), 1e301),
        (("devices", 0, "utilization_ratio"), float("nan")),
    ],
)
def test_off_values_are_refused(path: tuple[str | int, ...], value: object) -> None:
    plain = json.loads(dump_snapshot(busy_snapshot()))
    place = plain
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ForeignDataError) as refused:
        load_snapshot(json.dumps(plain).encode())
    assert len(refused.value.sentence) < 200


LATER = {"entitlements_known": False, "entitlement_gaps": ()}
"""Fields that recordings of before do not have, and how they are read then."""


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Snapshot)
                                   if f.name not in LATER])  # fmt: skip
def test_a_missing_field_is_refused(field: str) -> None:
    plain = json.loads(dump_snapshot(busy_snapshot()))
    del plain[field]
    with pytest.raises(ForeignDataError):
        load_snapshot(json.dumps(plain).encode())


def test_a_recording_of_before_reads_as_unknown() -> None:
    plain = json.loads(dump_snapshot(busy_snapshot()))
    for field in LATER:
        del plain[field]
    assert load_snapshot(json.dumps(plain).encode()) == busy_snapshot(**LATER)


def test_too_many_bytes_are_refused_unparsed() -> None:
    with pytest.raises(ForeignDataError, match="over the limit"):
        load_snapshot(b" " * (LIMIT_BYTES + 1))


@given(st.binary(max_size=200))
@example(b"[" * 100_000)
@example(b'{"version":1' + b"0" * 5000 + b"}")
@example(b"1" * 5000)
@example(b'"\xff"')
def test_any_bytes_are_refused_cleanly(data: bytes) -> None:
    with pytest.raises(ForeignDataError):
        load_snapshot(data)


@given(st.data())
def test_damaged_snapshots_load_or_are_refused(data: st.DataObject) -> None:
    good = bytearray(dump_snapshot(busy_snapshot()))
    for _ in range(data.draw(st.integers(1, 5))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(load_snapshot(bytes(good)), Snapshot)
    except ForeignDataError as error:
        assert error.next_step
