"""All forms of device ids, and any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.device_id import (
    DeviceId,
    hami_devices,
    parse_device_id,
    parse_dra_device,
)
from gpugauge.attribution.driver_minors import driver_minors

U = "0a1b2c3d-1111-2222-3333-444455556666"
GPU = f"GPU-{U}"
MIG = f"MIG-{U}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GPU, {"uuid": GPU}),
        (MIG, {"uuid": MIG}),
        (f"{GPU}::3", {"uuid": GPU, "replica": 3}),
        (f"{MIG}::0", {"uuid": MIG, "replica": 0}),
        (
            f"MIG-{GPU}/7/0",
            {"parent_uuid": GPU, "gpu_instance": 7, "compute_instance": 0, "slice_of_gpu": True},
        ),
        ("nvidia0", {"minor": 0}),
        ("nvidia11/gi1", {"minor": 11, "gpu_instance": 1, "slice_of_gpu": True}),
        ("nvidia0/vgpu2", {"minor": 0, "replica": 2}),
        ("nvidia0/gi1/vgpu0", {"minor": 0, "gpu_instance": 1, "replica": 0, "slice_of_gpu": True}),
        ("all", {"every": True}),
        (f"gpu-{U.upper()}", {"uuid": GPU}),
        ("0000:3b:00.0", {}),
        ("", {}),
    ],
)
def test_form(text, expected):
    assert parse_device_id(text) == DeviceId(text, **expected)


@pytest.mark.parametrize(
    ("text", "base"),
    [
        (GPU, GPU),
        (f"{GPU}::11", GPU),
        ("nvidia0/vgpu2", "nvidia0"),
        ("nvidia0/gi1/vgpu0", "nvidia0/gi1"),
    ],
)
def test_sharers_have_one_base(text, base):
    assert parse_device_id(text).base == base


@pytest.mark.parametrize(
    ("name", "minor", "part"),
    [
        ("gpu-0", 0, False),
        ("gpu-13", 13, False),
        ("gpu-0-mig-1g5gb-19-4", 0, True),
        ("gpu-vfio-0", None, False),
    ],
)
def test_names_of_the_dra_driver(name, minor, part):
    found = parse_dra_device(name)
    assert (found.minor, found.slice_of_gpu) == (minor, part)


def test_hamis_annotation():
    text = f"{GPU},NVIDIA,3000,30:GPU-{U[:-1]}7,NVIDIA,100,0:;;{GPU},NVIDIA,1,1:;"
    assert hami_devices(text) == ((GPU, f"GPU-{U[:-1]}7"), (GPU,))
    assert hami_devices("nonsense") == ((),)


@given(st.text(max_size=600))
def test_any_text(text):
    found = parse_device_id(text)
    assert len(found.text) <= 256
    assert len(found.base) <= 256
    assert len(parse_dra_device(text).text) <= 256
    assert all(uuid.startswith(("GPU-", "MIG-")) for c in hami_devices(text) for uuid in c)


@given(
    st.from_regex(
        r"(GPU|MIG|MIG-GPU)-[0-9a-f-]{0,40}(/[0-9]{0,4}){0,3}(::[0-9]{0,7})?", fullmatch=True
    )
)
def test_near_misses(text):
    found = parse_device_id(text)
    assert found.uuid in ("", text.partition("::")[0])


def test_device_files_by_the_drivers_own_word(tmp_path):
    for address, minor, uuid in (
        ("0000:3b:00.0", "1", GPU),
        ("0000:af:00.0", "0", f"GPU-{U[:-1]}7"),
    ):
        folder = tmp_path / "driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t Some GPU\nIRQ:   \t\t 23\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        )
    (tmp_path / "driver/nvidia/gpus/odd").mkdir()
    assert driver_minors(str(tmp_path)) == {1: GPU, 0: f"GPU-{U[:-1]}7"}
    assert driver_minors(str(tmp_path / "none")) == {}
