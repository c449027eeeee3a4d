"""Every known form of a cgroup path, and any bytes at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.cgroup import (
    FILE_LIMIT_BYTES,
    IDS_LIMIT,
    PATH_LIMIT,
    Qos,
    container_levels,
    controller_paths,
    parse_file,
    parse_path,
)

H = "0123456789abcdef" * 4
H2 = "fedcba9876543210" * 4
NODE_H = "aa" * 32
U = "3f2a1b4c-0d5e-4f60-8a7b-9c0d1e2f3a4b"
U_ = U.replace("-", "_")
STATIC = "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{U_}.slice"

# path, container ids, pod UIDs, QoS, in a pod
FORMS = [
    (f"/kubepods/burstable/pod{U}/{H}", [H], [U], Qos.BURSTABLE, True),
    (f"/kubepods/pod{U}/{H}", [H], [U], Qos.GUARANTEED, True),
    (f"/kubepods/besteffort/pod{U}/{H}", [H], [U], Qos.BEST_EFFORT, True),
    (f"{SYSTEMD}/cri-containerd-{H}.scope", [H], [U], Qos.BURSTABLE, True),
    (
        f"/kubepods.slice/kubepods-pod{U_}.slice/cri-containerd-{H}.scope",
        [H],
        [U],
        Qos.GUARANTEED,
        True,
    ),
    (f"{SYSTEMD}/crio-{H}.scope", [H], [U], Qos.BURSTABLE, True),
    (f"{SYSTEMD}/crio-{H}.scope/container", [H], [U], Qos.BURSTABLE, True),
    (f"/kubepods/besteffort/pod{U}/crio-{H}", [H], [U], Qos.BEST_EFFORT, True),
    (f"{SYSTEMD}/crio-conmon-{H}.scope", [], [U], Qos.BURSTABLE, True),
    (f"{SYSTEMD}/docker-{H}.scope", [H], [U], Qos.BURSTABLE, True),
    (f"{SYSTEMD}/libpod-{H}.scope", [H], [U], Qos.BURSTABLE, True),
    (f"{SYSTEMD}/cri-containerd-{H}", [H], [U], Qos.BURSTABLE, True),
    # containerd below the systemd driver, given a path of its own with colons
    (
        f"/system.slice/kubepods-burstable-pod{U_}.slice:cri-containerd:{H}",
        [H],
        [U],
        Qos.BURSTABLE,
        True,
    ),
    (
        f"/docker/{NODE_H}/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{U_}.slice/"
        f"cri-containerd-{H}.scope",
        [NODE_H, H],
        [U],
        Qos.BEST_EFFORT,
        True,
    ),
    (
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{U_}.slice/"
        f"cri-containerd-{H}.scope",
        [H],
        [U],
        Qos.GUARANTEED,
        True,
    ),
    (f"{SYSTEMD}/cri-containerd-{H}.scope/init", [H], [U], Qos.BURSTABLE, True),
    (f"/kubepods/burstable/pod{U}/{H}/kube-proxy", [H], [U], Qos.BURSTABLE, True),
    (f"/kubepods/burstable/pod{U}/{H}/system.slice/foo.service", [H], [U], Qos.BURSTABLE, True),
    (f"{SYSTEMD}/cri-containerd-{H}.scope/docker/{H2}", [H, H2], [U], Qos.BURSTABLE, True),
    (f"/../cri-containerd-{H}.scope", [H], [], Qos.NONE, False),
    (
        f"/../../../kubepods-burstable.slice/kubepods-burstable-pod{U_}.slice/"
        f"cri-containerd-{H}.scope",
        [H],
        [U],
        Qos.BURSTABLE,
        True,
    ),
    ("/", [], [], Qos.NONE, False),
    ("/../../user.slice/user-1000.slice/session-2.scope", [], [], Qos.NONE, False),
    (f"/k8s.io/{H}", [H], [], Qos.NONE, False),
    (f"/docker/{H}", [H], [], Qos.NONE, False),
    (f"/system.slice/docker-{H}.scope", [H], [], Qos.NONE, False),
    ("/lxc/web", ["web"], [], Qos.NONE, False),
    ("/lxc.payload.web/init.scope", ["web"], [], Qos.NONE, False),
    (
        f"/ecs/{STATIC}/{STATIC}-1234567890",
        [f"{STATIC}-1234567890"],
        [],
        Qos.NONE,
        False,
    ),
    ("/system.slice/kubelet.service", [], [], Qos.NONE, False),
    ("/podruntime.slice", [], [], Qos.NONE, False),
    ("/podruntime/runtime", [], [], Qos.NONE, False),
    ("/runtime.slice/containerd.service", [], [], Qos.NONE, False),
    ("/azure.slice/x.service", [], [], Qos.NONE, False),
    ("/reserved.slice", [], [], Qos.NONE, False),
    ("/kube.slice/kubelet.service", [], [], Qos.NONE, False),
    (f"/kubepods/burstable/pod{STATIC}/{H}", [H], [STATIC], Qos.BURSTABLE, True),
    (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/"
        f"cri-containerd-{H}.scope",
        [H],
        [STATIC],
        Qos.BURSTABLE,
        True,
    ),
]


@pytest.mark.parametrize(("path", "ids", "uids", "qos", "in_pod"), FORMS)
def test_form(path, ids, uids, qos, in_pod):
    found = parse_path(path)
    assert list(found.container_ids) == ids
    assert list(found.pod_uids) == uids
    assert found.qos is qos
    assert found.in_pod is in_pod
    assert found.is_host is (not ids and not uids and not in_pod)
    assert not found.unparsed


def test_relative_paths_are_told():
    assert parse_path(f"/../cri-containerd-{H}.scope").relative
    assert parse_path("/").relative
    assert not parse_path("/init.scope").relative


def test_kubepods_without_any_name_is_not_taken_for_the_host():
    found = parse_path("/kubepods/burstable/podnonsense/thing")
    assert found.unparsed
    assert not found.is_host


def test_ids_of_other_lengths_are_not_ids():
    assert parse_path(f"/docker/{H}0").container_ids == ()
    assert parse_path(f"/docker/{H[:-1]}").container_ids == ()
    assert parse_path(f"/docker/{H.upper()}").container_ids == ()


def test_a_container_cannot_hide_its_pod_below_many_cgroups_of_its_own():
    nested = "/".join(f"{number:064x}" for number in range(53))
    found = parse_path(f"/kubepods/pod{U}/{H}/{nested}")
    assert found.container_ids[0] == H
    assert len(found.container_ids) == IDS_LIMIT
    assert found.pod_uids == (U,)


def test_hybrid_prefers_the_line_below_kubepods():
    data = (
        f"11:perf_event:/\n7:memory:/kubepods/burstable/pod{U}/{H}\n"
        "1:name=systemd:/system.slice/containerd.service\n"
        "0::/system.slice/containerd.service\n"
    ).encode()
    assert parse_file(data).container_id == H
    assert controller_paths(data)["memory"] == f"/kubepods/burstable/pod{U}/{H}"
    assert controller_paths(data)[""] == "/system.slice/containerd.service"


def test_an_id_is_preferred_to_a_service_and_v2_to_nothing():
    data = f"4:devices:/docker/{H}\n3:cpu:/user.slice\n0::/init.scope\n".encode()
    assert parse_file(data).container_id == H
    assert parse_file(b"0::/init.scope\n").path == "/init.scope"
    assert parse_file(b"5:freezer:/\n0::/init.scope\n").path == "/init.scope"


def test_named_controllers_share_a_line():
    assert controller_paths(b"4:cpu,cpuacct:/a\n0::/b\n") == {
        "cpu": "/a",
        "cpuacct": "/a",
        "": "/b",
    }


def test_malformed_lines_are_passed_over():
    data = f"\n:::\nx:cpu:/docker/{H}\n3:cpu\n3:cpu:relative\n2:cpu:/docker/{H2}\n\xff".encode()
    assert parse_file(data).container_id == H2


def test_a_colon_in_the_path_stays_in_it():
    assert parse_file(f"0::/system.slice/a:b/{H}".encode()).container_id == H


@pytest.mark.parametrize(
    ("path", "levels"),
    [
        (f"/kubepods/pod{U}/{H}", (f"/kubepods/pod{U}/{H}", f"/kubepods/pod{U}")),
        (f"{SYSTEMD}/crio-{H}.scope/container", (f"{SYSTEMD}/crio-{H}.scope", SYSTEMD)),
        (f"/kubepods/pod{U}/{H}/docker/{H2}", (f"/kubepods/pod{U}/{H}", f"/kubepods/pod{U}")),
        (f"/docker/{NODE_H}/x/pod{U}/{H}/y", (f"/docker/{NODE_H}/x/pod{U}/{H}",)),
        (f"/docker/{H}/init.scope", (f"/docker/{H}",)),
        ("/system.slice/a.service", ()),
        (f"/../pod{U}/{H}", ()),
    ],
)
def test_levels_are_the_containers_and_the_pods(path, levels):
    assert container_levels(path)[: len(levels)] == levels


COMPONENT = st.one_of(
    st.sampled_from(
        [H, H2, f"pod{U}", f"pod{STATIC}", "kubepods", "..", f"crio-{H}.scope", "lxc", "besteffort"]
    ),
    st.text(alphabet=st.characters(exclude_characters="/\n"), max_size=80),
)


@given(st.lists(COMPONENT, max_size=64))
def test_any_path_is_parsed_within_bounds(components):
    found = parse_path("/" + "/".join(components))
    assert len(found.path) <= PATH_LIMIT
    assert len(found.container_ids) <= IDS_LIMIT
    assert len(found.pod_uids) <= IDS_LIMIT
    assert found.is_host != bool(found.in_pod or found.container_ids or found.pod_uids)
    assert len(container_levels(found.path)) <= 2


@given(st.binary(max_size=4 * FILE_LIMIT_BYTES))
def test_any_bytes_are_parsed(data):
    found = parse_file(data)
    assert len(found.path) <= PATH_LIMIT
    assert all(len(path) <= PATH_LIMIT for path in controller_paths(data).values())


@given(st.lists(COMPONENT, max_size=8), st.lists(COMPONENT, max_size=8))
def test_nothing_below_a_container_changes_its_outermost_names(before, below):
    own = "/" + "/".join([*before, "kubepods", f"pod{U}", H])
    found, deeper = parse_path(own), parse_path(own + "/" + "/".join(below))
    if len(found.container_ids) < IDS_LIMIT - 1:
        assert deeper.container_ids[: len(found.container_ids)] == found.container_ids
    assert deeper.pod_uids[: len(found.pod_uids)] == found.pod_uids
