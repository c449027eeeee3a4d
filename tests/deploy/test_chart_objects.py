"""What the rendered objects hold, mode by mode."""

from __future__ import annotations

import base64
import json
from fnmatch import fnmatch

import pytest

from tests.deploy.chart import CI, RELEASE, render

IDS = [path.name.removesuffix("-values.yaml") for path in CI]
CORE = {
    "BPF", "PERFMON", "SYS_PTRACE", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH",
    "SETUID", "SETGID", "KILL",
}  # fmt: skip
TOKEN = "correct-horse-battery-staple"
WRITABLE = {"/run/gpugauge.lock", "/tmp", "/recordings"}


def pods(rendered):
    return [one["spec"]["template"]["spec"] for one in rendered.all("DaemonSet")]


def environment(container):
    return {one["name"]: one.get("value") for one in container["env"]}


def matches(node, selector_terms) -> bool:
    """Whether a node's labels meet a node affinity: terms are ORed, expressions ANDed."""

    def met(one) -> bool:
        found = node.get(one["key"])
        return {
            "In": found in one.get("values", []),
            "NotIn": found not in one.get("values", []),
            "Exists": found is not None,
            "DoesNotExist": found is None,
        }[one["operator"]]

    return any(all(map(met, term["matchExpressions"])) for term in selector_terms)


def runs_on(rendered, node, name=RELEASE) -> bool:
    pod = rendered.pod(name)
    if any(node.get(key) != text for key, text in pod.get("nodeSelector", {}).items()):
        return False
    affinity = pod.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches(node, required["nodeSelectorTerms"])


# ---- rights -----------------------------------------------------------------------------------


def test_the_preset_capabilities_holds_what_is_needed_and_no_more() -> None:
    context = render().container()["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": context["capabilities"]["add"]}
    assert set(context["capabilities"]["add"]) == CORE
    assert context["privileged"] is False
    assert context["allowPrivilegeEscalation"] is False


def test_sys_admin_is_there_when_it_is_asked_for() -> None:
    context = render({"security.sysAdmin": True}).container()["securityContext"]
    assert set(context["capabilities"]["add"]) == CORE | {"SYS_ADMIN"}
    # The API server refuses the two together.
    assert "allowPrivilegeEscalation" not in context


def test_the_preset_privileged_needs_no_list() -> None:
    context = render({"security.preset": "privileged"}).container()["securityContext"]
    assert context["privileged"] is True
    assert "capabilities" not in context and "allowPrivilegeEscalation" not in context


@pytest.mark.parametrize("path", CI, ids=IDS)
def test_in_every_mode(path) -> None:
    rendered = render(files=[path])
    for pod in pods(rendered):
        (container,) = pod["containers"]
        assert pod["hostPID"] is True
        assert "hostNetwork" not in pod and "hostIPC" not in pod
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert not any(
            "nvidia.com" in name for part in container["resources"].values() for name in part
        )
        assert container["resources"]["limits"] == {"memory": "192Mi"}
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
        for mount in container["volumeMounts"]:
            assert mount.get("readOnly") or mount["mountPath"] in WRITABLE, mount
        (port,) = container["ports"]
        assert port["name"] == "metrics" and "hostPort" not in port
    for one in rendered.all("DaemonSet"):
        strategy = one["spec"]["updateStrategy"]
        if strategy["type"] == "RollingUpdate":
            assert strategy["rollingUpdate"]["maxSurge"] == 0


def test_of_the_host_only_these_are_mounted() -> None:
    def paths(values):
        volumes = render(values).pod()["volumes"]
        return {
            one["hostPath"]["path"]: one["hostPath"]["type"] for one in volumes if "hostPath" in one
        }

    always = {
        "/var/lib/kubelet/pod-resources": "Directory",
        "/sys/fs/cgroup": "Directory",
        "/run/gpugauge.lock": "FileOrCreate",
    }
    assert paths({}) == always
    by_path = {"driver.access": "hostPath", "security.preset": "privileged"}
    assert paths(by_path) == always | {"/dev": "Directory"}
    other = paths({"kubeletPath": "/data/kubelet"})
    assert "/data/kubelet/pod-resources" in other and "/var/lib/kubelet/pod-resources" not in other


def test_apparmor_is_a_field_or_before_1_30_an_annotation() -> None:
    name = "container.apparmor.security.beta.kubernetes.io/agent"
    for values, field, word in (
        ({}, "Unconfined", "unconfined"),
        ({"security.appArmor": "RuntimeDefault"}, "RuntimeDefault", "runtime/default"),
    ):
        old, new = render(values, kubernetes="1.29"), render(values, kubernetes="1.30")
        template = old.one("DaemonSet")["spec"]["template"]["metadata"]
        assert template["annotations"][name] == word
        assert "appArmorProfile" not in old.container()["securityContext"]
        assert new.container()["securityContext"]["appArmorProfile"] == {"type": field}
        template = new.one("DaemonSet")["spec"]["template"]["metadata"]
        assert name not in template["annotations"]


# ---- the driver -------------------------------------------------------------------------------


def test_access_by_variable_and_runtime_class() -> None:
    plain, by_class = render(), render({"driver.access": "runtimeClass"})
    for one in (plain, by_class):
        found = environment(one.container())
        assert found["NVIDIA_VISIBLE_DEVICES"] == "all"
        assert found["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert "runtimeClassName" not in plain.pod()
    assert by_class.pod()["runtimeClassName"] == "nvidia"


def test_access_by_cdi_is_an_annotation_for_the_container() -> None:
    rendered = render({"driver.access": "cdi", "driver.cdiDevice": "example.com/gpu=every"})
    annotations = rendered.one("DaemonSet")["spec"]["template"]["metadata"]["annotations"]
    name = f"nvidia.cdi.k8s.io/container.{rendered.container()['name']}"
    assert annotations[name] == "example.com/gpu=every"
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(rendered.container())
    assert "runtimeClassName" not in rendered.pod()


@pytest.mark.parametrize("access", ["hostPath", "none"])
def test_access_without_the_runtime_says_nothing_to_it(access) -> None:
    rendered = render({"driver.access": access, "security.preset": "privileged"})
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(rendered.container())
    assert "runtimeClassName" not in rendered.pod()


def test_mig_is_asked_for_only_where_the_runtime_allows_it() -> None:
    """NVIDIA's runtime ends with a panic where a container without SYS_ADMIN asks."""

    def asks(**values):
        return environment(render(values).container()).get("NVIDIA_MIG_MONITOR_DEVICES")

    assert asks() is None
    assert asks(**{"security.sysAdmin": True}) == "all"
    assert asks(**{"security.preset": "privileged"}) == "all"
    assert asks(**{"security.preset": "privileged", "driver.access": "none"}) is None


# ---- nodes ------------------------------------------------------------------------------------

CPU_NODE = {"kubernetes.io/hostname": "cpu-1"}
GPU_NODES = [
    {"nvidia.com/gpu.present": "true"},
    {"feature.node.kubernetes.io/pci-10de.present": "true"},
    {"feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA"},
    {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"},
    {"k8s.amazonaws.com/accelerator": "nvidia-h100"},
]


@pytest.mark.parametrize(
    ("values", "everywhere"),
    [
        ({}, True),
        ({"driver.access": "runtimeClass"}, False),
        ({"driver.access": "runtimeClass", "nodes.withGpuOnly": "never"}, True),
        ({"nodes.withGpuOnly": "always"}, False),
        ({"nodes.withGpuOnly": "always", "nodes.pauseForDriverUpgrade": False}, False),
        ({"nodes.withGpuOnly": "always", "canary.enabled": True}, False),
    ],
    ids=str,
)
def test_nodes_with_and_without_a_gpu(values, everywhere) -> None:
    rendered = render(values)
    assert runs_on(rendered, CPU_NODE) is everywhere
    for node in GPU_NODES:
        assert runs_on(rendered, node)


@pytest.mark.parametrize("access", ["env", "runtimeClass"])
def test_a_driver_upgrade_pauses_the_agent(access) -> None:
    rendered = render({"driver.access": access, "canary.enabled": True})
    gpu = GPU_NODES[0]
    for state, stays in (
        ("true", True),
        ("paused-for-driver-upgrade", False),
        ("paused-for-mig-change", False),
    ):
        node = gpu | {"nvidia.com/gpu.deploy.client": state}
        assert runs_on(rendered, node) is stays
        node |= {"gpugauge.io/canary": "true"}
        assert runs_on(rendered, node, f"{RELEASE}-canary") is stays
    assert runs_on(rendered, gpu)
    off = render({"nodes.pauseForDriverUpgrade": False})
    assert runs_on(off, gpu | {"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"})
    other = render({"nodes.pauseLabel": "nvidia.com/gpu.deploy.dcgm"})
    assert not runs_on(other, gpu | {"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"})


def test_every_taint_is_tolerated_by_default() -> None:
    assert render().pod()["tolerations"] == [{"operator": "Exists"}]


def test_a_node_affinity_of_ones_own_holds_in_every_pool() -> None:
    (path,) = [one for one in CI if one.name == "own-token-values.yaml"]
    rendered = render(files=[path])
    for node in ({"gpu": "h200"}, {"partition": "gpu"}):
        assert runs_on(rendered, node)
        assert not runs_on(rendered, node | {"gpugauge.io/canary": "true"})
        assert runs_on(rendered, node | {"gpugauge.io/canary": "true"}, f"{RELEASE}-canary")
        assert not runs_on(rendered, node, f"{RELEASE}-canary")
    assert not runs_on(rendered, {"gpu": "t4"})


# ---- the canary pool --------------------------------------------------------------------------


@pytest.mark.parametrize("path", [p for p in CI if "canary" in p.read_text()], ids=lambda p: p.name)
def test_a_node_has_one_pool_only(path) -> None:
    rendered = render(files=[path])
    main, canary = (one["metadata"]["name"] for one in rendered.all("DaemonSet"))
    values = {"gpugauge.io/canary": ["true", "false"], "pool": ["canary", "x"]}
    gpu = {"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux", "gpu": "h200"}
    seen = set()
    for key, texts in values.items():
        for text in [None, *texts]:
            node = gpu | ({key: text} if text else {})
            pools = [name for name in (main, canary) if runs_on(rendered, node, name)]
            assert len(pools) == 1, node
            seen |= set(pools)
    assert seen == {main, canary}


def test_selectors_of_the_pools_are_disjoint_and_their_pods_are_found_together() -> None:
    rendered = render({"canary.enabled": True})
    sets = rendered.all("DaemonSet")
    selectors = [one["spec"]["selector"]["matchLabels"] for one in sets]
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in sets]
    for at, selector in enumerate(selectors):
        for other, held in enumerate(labels):
            assert (selector.items() <= held.items()) is (at == other)
    for held in labels:
        assert held["app.kubernetes.io/name"] == "gpugauge"
        assert rendered.one("Service")["spec"]["selector"].items() <= held.items()


def test_the_canary_has_another_image_and_other_settings() -> None:
    (path,) = [one for one in CI if one.name == "canary-values.yaml"]
    rendered = render(files=[path])
    main, canary = rendered.settings(), rendered.settings(f"{RELEASE}-canary")
    assert rendered.container(RELEASE)["image"].startswith("gpugauge/gpugauge@sha256:")
    assert rendered.container(f"{RELEASE}-canary")["image"] == "gpugauge/gpugauge:0.2.0"
    assert "log_level" not in main and canary["log_level"] == "debug"
    assert main["price"]["per_gpu_hour"]["NVIDIA H200"] == 3.5
    assert canary["price"]["per_gpu_hour"] == {"NVIDIA H200": 4, "NVIDIA A100-SXM4-80GB": 2}
    assert main["series"] == canary["series"] == {"per_node": 50000}


# ---- settings and secrets ---------------------------------------------------------------------


def checksum(rendered):
    template = rendered.one("DaemonSet")["spec"]["template"]["metadata"]
    return {k: v for k, v in template["annotations"].items() if k.startswith("checksum/")}


def test_a_new_setting_or_token_restarts_the_pods() -> None:
    assert checksum(render()) == checksum(render({"podMonitor.enabled": True}))
    assert checksum(render()) != checksum(render({"settings.log_level": "debug"}))
    exposed = {"api.exposed": True, "api.token.value": TOKEN}
    assert checksum(render(exposed)) != checksum(render(exposed | {"api.token.value": TOKEN * 2}))


def test_a_token_is_in_its_secret_and_nowhere_else() -> None:
    rendered = render({"api.exposed": True, "api.token.value": TOKEN})
    secret = rendered.one("Secret")
    assert base64.b64decode(secret["data"]["token"]).decode() == TOKEN
    rest = json.dumps([one for one in rendered.objects if one is not secret])
    assert TOKEN not in rest and base64.b64encode(TOKEN.encode()).decode() not in rest
    assert not any(fnmatch(name, "*TOKEN*") for name in environment(rendered.container()))
    assert rendered.settings()["listen"]["bearer_token_file"] == "/etc/gpugauge/token/token"
    volume = next(one for one in rendered.pod()["volumes"] if one["name"] == "token")
    assert volume["secret"] == {"secretName": "gpugauge-token", "defaultMode": 0o400}


def test_a_secret_of_ones_own_is_not_made() -> None:
    rendered = render({"api.exposed": True, "api.token": {"secretName": "mine", "key": "bearer"}})
    assert not rendered.all("Secret")
    volume = next(one for one in rendered.pod()["volumes"] if one["name"] == "token")
    assert volume["secret"]["secretName"] == "mine"
    assert rendered.settings()["listen"]["bearer_token_file"] == "/etc/gpugauge/token/bearer"


def test_without_a_token_nothing_of_it_is_there() -> None:
    rendered = render()
    assert "bearer_token_file" not in rendered.settings()["listen"]
    assert not [one for one in rendered.pod()["volumes"] if "secret" in one]


def test_the_off_switch_of_the_settings_is_that_of_the_roles() -> None:
    rendered = render()
    namespace, name = rendered.settings()["off_switch"]["config_map"].split("/")
    role = rendered.one("Role", name)
    assert role["metadata"]["namespace"] == namespace
    assert role["rules"][0]["resourceNames"] == [name]
    off = render({"offSwitch.configMap": False, "offSwitch.nodeAnnotation": False})
    assert off.settings()["off_switch"] == {"config_map": "", "node_annotation": False}
    assert not off.all("Role")


# ---- network ----------------------------------------------------------------------------------


def test_the_network_policy_lets_in_the_port_and_out_to_the_api_server() -> None:
    assert not render().all("NetworkPolicy")
    peers = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    spec = render({"networkPolicy": {"enabled": True, "from": peers}}).one("NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}], "from": peers}]
    closed = render({"networkPolicy": {"enabled": True, "restrictEgress": True}})
    spec = closed.one("NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert [one["port"] for one in spec["egress"][0]["ports"]] == [443, 6443]
    assert spec["podSelector"]["matchLabels"] == closed.one("Service")["spec"]["selector"]


def test_one_port_everywhere() -> None:
    rendered = render({"port": 9999})
    assert rendered.settings()["listen"]["port"] == 9999
    assert rendered.container()["ports"][0]["containerPort"] == 9999
    assert rendered.one("Service")["spec"]["ports"][0]["port"] == 9999
