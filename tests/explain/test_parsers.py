"""Parsers of what is not ours: any bytes are read within bounds, and right ones read right."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution import request_path_claims, request_path_pods
from gpugauge.attribution.request_path import Taint
from gpugauge.attribution.request_path_kubelet import checkpoint
from gpugauge.errors import ForeignDataError, UnavailableError
from gpugauge.explain.checks import xid
from gpugauge.explain.checks.start import MESSAGES, message_of
from gpugauge.explain.evidence import LogLine
from gpugauge.explain.facts import tolerated
from gpugauge.explain.gather.deadline import STUCK_LIMIT, within
from gpugauge.explain.gather.driver_files import major_numbers, module_names
from gpugauge.explain.gather.linux_log import LINES_LIMIT, TEXT_LIMIT, parse, read_log
from gpugauge.explain.gather.node_processes import process_table
from gpugauge.explain.gather.toolkit_files import specification
from tests.explain import objects

SECOND = 1_000_000_000


@given(st.binary(max_size=4096))
def test_any_log_is_read_within_bounds(data: bytes) -> None:
    for line in parse(data, 0):
        assert len(line.text) <= TEXT_LIMIT
        assert line.text.isprintable()
        assert line.unix_ns >= 0
        xid.parse(line)


@given(st.lists(st.tuples(st.integers(0, 10**15), st.sampled_from(["NVRM: x", "other", "avc: y"]))))
def test_log_lines_of_gpus_are_kept_in_order(records: list[tuple[int, str]]) -> None:
    raw = "".join(f"4,{n},{us},-;{text}\n KEY=NVRM\n" for n, (us, text) in enumerate(records))
    wanted = [(us * 1000 + 7, text) for us, text in records if text != "other"]
    assert [(one.unix_ns, one.text) for one in parse(raw.encode(), 7)] == wanted[-LINES_LIMIT:]


def test_a_log_is_read_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    assert read_log(str(tmp_path / "kmsg"), 0) == ()
    with pytest.raises(UnavailableError, match="cannot be read"):
        read_log(str(tmp_path / "none"), 0)


def test_the_log_of_this_machine_is_read() -> None:
    try:
        lines = read_log("/dev/kmsg")
    except UnavailableError as error:
        assert "/dev/kmsg" in error.sentence
        return
    assert len(lines) <= LINES_LIMIT


@pytest.mark.parametrize(
    ("text", "bus", "number"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=17, name=x, GPU has fallen off", "0000:3b:00", 79),
        ("NVRM: Xid (PCI:0000:3B:00.0): 31, pid='<unknown>'", "0000:3b:00", 31),
        ("NVRM: GPU at PCI:0000:af:00: GPU-1 ... has fallen off the bus.", "0000:af:00", 79),
        ("NVRM: GPU 0000:af:00.0: GPU has fallen off the bus.", "0000:af:00", 79),
    ],
)
def test_xids_are_read(text: str, bus: str, number: int) -> None:
    found = xid.parse(LogLine(0, text))
    assert found is not None
    assert (found.bus, found.number) == (bus, number)
    assert xid.parse(LogLine(0, "NVRM: loading")) is None


def test_bus_ids_of_nvml_and_of_linux_meet() -> None:
    assert xid._bus("00000000:3B:00.0") == xid._bus("0000:3b:00") == "0000:3b:00"


@given(st.text(max_size=2048))
def test_any_proc_text_is_read(text: str) -> None:
    assert all(name.startswith(("nvidia", "nouveau", "vfio")) for name in module_names(text))
    assert all(name.startswith("nvidia") and n >= 0 for name, n in major_numbers(text).items())


def test_majors_stop_at_block_devices() -> None:
    text = "Character devices:\n195 nvidia\n507 nvidia-uvm\n\nBlock devices:\n 259 nvidia-no\n"
    assert major_numbers(text) == {"nvidia": 195, "nvidia-uvm": 507}


@given(st.binary(max_size=2048))
def test_any_checkpoint_is_read_or_refused(data: bytes) -> None:
    try:
        registered, holders = checkpoint(data)
    except ForeignDataError:
        return
    assert all(isinstance(count, int) for count in registered.values())
    assert all(isinstance(uid, str) for uid in holders)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
KEYS = ("Data", "RegisteredDevices", "PodDeviceEntries", "PodUID", "ResourceName", "DeviceIDs")


@given(st.recursive(json_values, lambda v: st.dictionaries(st.sampled_from(KEYS), v), max_leaves=9))
def test_a_checkpoint_of_another_form_is_refused(plain: object) -> None:
    try:
        checkpoint(json.dumps(plain).encode())
    except ForeignDataError as error:
        assert "another form" in error.sentence


@given(json_values)
def test_any_json_is_a_pod_or_refused(plain: object) -> None:
    data = json.dumps(plain).encode()
    for decode in (
        request_path_pods.pod,
        request_path_pods.node,
        request_path_claims.claim,
    ):
        try:
            decode(data)
        except ForeignDataError:
            continue


@given(st.sampled_from(["metadata", "spec", "status"]), json_values)
def test_a_pod_with_a_part_of_another_form(part: str, value: object) -> None:
    plain = {**objects.pod(), part: value}
    try:
        found = request_path_pods.pod(json.dumps(plain).encode())
    except ForeignDataError:
        return
    assert found.name in ("train-0", "") or part == "metadata"


def test_a_pod_is_read_as_it_is() -> None:
    plain = objects.pod()
    plain["spec"]["volumes"] = [{"name": "d", "hostPath": {"path": "/dev"}}]
    main = plain["spec"]["containers"][0]
    main["volumeMounts"] = [{"name": "d", "mountPath": "/host-dev"}]
    main["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "TOKEN", "value": "hunter2"},
        {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    found = request_path_pods.pod(json.dumps(plain).encode())
    assert (found.namespace, found.name, found.node) == ("ml", "train-0", objects.NODE)
    assert found.started_unix_ns == objects.STARTED_UNIX_NS
    container = found.containers[0]
    assert container.resources == {"nvidia.com/gpu": "1"}
    assert container.environment == {"NVIDIA_VISIBLE_DEVICES": "all"}
    assert container.host_devices and not container.privileged
    assert container.state == "running" and len(container.container_id) == 64


@given(st.text(max_size=2048))
def test_any_specification_is_counted(body: str) -> None:
    kind, devices = specification(body)
    assert isinstance(kind, str) and devices >= 0


def test_specifications_in_both_forms() -> None:
    plain = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}] * 3}
    assert specification(json.dumps(plain)) == ("nvidia.com/gpu", 3)
    yaml = (
        "cdiVersion: 0.6.0\ncontainerEdits:\n  deviceNodes:\n  - name: not-a-device\n"
        "devices:\n- containerEdits: {}\n  name: '0'\n- name: all\nkind: nvidia.com/gpu\n"
    )
    assert specification(yaml) == ("nvidia.com/gpu", 2)


@given(st.text(max_size=512))
def test_any_message_is_looked_up(text: str) -> None:
    found = message_of(text)
    assert found is None or found in MESSAGES


taints = st.builds(
    Taint,
    key=st.sampled_from(["", "a", "b"]),
    value=st.sampled_from(["", "x", "y"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    operator=st.sampled_from(["Equal", "Exists"]),
)


@given(taints.filter(lambda t: t.key and t.effect), st.lists(taints, max_size=3))
def test_tolerations_as_kubernetes_defines_them(taint: Taint, tolerations: list[Taint]) -> None:
    def one(t: Taint) -> bool:
        if t.effect and t.effect != taint.effect:
            return False
        if not t.key:
            return t.operator == "Exists"
        return t.key == taint.key and (t.operator == "Exists" or t.value == taint.value)

    wanted = taint.effect == "PreferNoSchedule" or any(one(t) for t in tolerations)
    assert tolerated(taint, tolerations) is wanted


def test_a_read_that_hangs_is_given_up() -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait(30)

    for _ in range(STUCK_LIMIT):
        with pytest.raises(UnavailableError, match="did not answer"):
            within(0.01, hang)
    with pytest.raises(UnavailableError, match="earlier reads"):
        within(0.01, hang)
    release.set()
    for thread in threading.enumerate():
        if thread.name == "explain-read":
            thread.join(10)
    assert within(5.0, lambda: 23) == 23
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 // 0)


def test_processes_with_odd_names(tmp_path: Path) -> None:
    for pid, stat in {7: "7 (a) b) Z 1", 11: "11 (nv-fabricmanage) S 1", 13: ""}.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat)
    (tmp_path / "self").mkdir()
    table = process_table(str(tmp_path))
    assert table.pids == {7, 11, 13}
    assert table.zombies == {7}
    assert "nv-fabricmanage" in table.commands
