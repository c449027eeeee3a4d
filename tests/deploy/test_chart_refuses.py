"""Values that cannot work are refused, with a sentence that says what to do."""

from __future__ import annotations

import re

import pytest

from tests.deploy.chart import CHART, Refused, render

TOKEN = "0123456789abcdef"
NODES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
        }
    }
}
CASES = [
    ({"hostPID": False}, "host's PID namespace"),
    ({"settings.attach.mode": "perf"}, "security.sysAdmin=true"),
    ({"canary.enabled": True, "canary.settings.attach.mode": "perf"}, "security.sysAdmin=true"),
    ({"driver.access": "hostPath"}, "security.preset=privileged"),
    ({"driver.access": "cdi", "driver.cdiDevice": ""}, "Set driver.cdiDevice"),
    ({"driver.access": "runtimeClass", "driver.runtimeClassName": ""}, "driver.runtimeClassName"),
    ({"api.exposed": True}, "needs a token"),
    ({"api.token.value": TOKEN}, "Set api.exposed=true"),
    ({"api.token.secretName": "mine"}, "Set api.exposed=true"),
    ({"api.exposed": True, "api.token": {"value": TOKEN, "secretName": "mine"}}, "Two tokens"),
    ({"podMonitor.enabled": True, "serviceMonitor.enabled": True}, "scrape every agent twice"),
    ({"serviceMonitor.enabled": True, "service.enabled": False}, "service.enabled=true"),
    ({"nodes.withGpuOnly": "always", "affinity": NODES}, "choose nodes"),
    ({"podLabels": {"app.kubernetes.io/name": "x"}}, "app.kubernetes.io/name is the chart's own"),
    ({"commonLabels": {"app.kubernetes.io/component": "x"}}, "app.kubernetes.io/component"),
    ({"extraEnv": [{"name": "GPUGAUGE_SETTINGS", "value": "x"}]}, "Remove it from extraEnv"),
    ({"settings.listen.address": "127.0.0.1"}, "do not reach the loopback"),
    (
        {"canary.enabled": True, "canary.settings.listen.address": "::1"},
        "do not reach the loopback",
    ),
    ({"settings.kubernetes.mode": "off", "podEvents.enabled": True}, "write to the API server"),
    ({"settings.kubernetes.mode": "off", "loadScore.enabled": True}, "write to the API server"),
]
UNKNOWN = [
    {"imag": {}},
    {"image.tags": "x"},
    {"security.capabilities": []},
    {"securityContext": {}},
    {"settings.tick": 1},
    {"settings.attach.modes": "auto"},
    {"settings.listen.port": 1},
    {"settings.kubernetes.kubelet_path": "/x"},
    {"settings.demo.libraries": "/x"},
    {"canary.settings.node_name": "x"},
    {"canary.image.tags": "x"},
    {"podMonitor.honourLabels": True},
    {"networkPolicy.ingress": []},
]
WRONG = [
    {"security.preset": "restricted"},
    {"driver.access": "toolkit"},
    {"driver.cdiDevice": "all"},
    {"nodes.withGpuOnly": True},
    {"nodes.pauseLabel": "-x"},
    {"port": 0},
    {"port": 65536},
    {"port": "9836"},
    {"kubeletPath": "var/lib/kubelet"},
    {"kubeletPath": "/var/lib/kubelet/"},
    {"kubeletPath": '/var/"lib'},
    {"image.pullPolicy": "Sometimes"},
    {"image.digest": "sha256:12"},
    {"image.repository": ""},
    {"image.tag": "a b"},
    {"updateStrategy.maxUnavailable": 0},
    {"updateStrategy.maxUnavailable": "0%"},
    {"updateStrategy.type": "Recreate"},
    {"api.token.value": "short"},
    {"api.token.value": "a token with blanks in it"},
    {"settings.tick_seconds": 0},
    {"settings.series.per_owner": 10**6},
    {"settings.series.per_owner": 60.5},
    {"settings.attach.mode": "kprobe"},
    {"settings.attach.driver_roots": "/"},
    {"settings.price.per_gpu_hour": {"H200": -1}},
    {"podMonitor.interval": "15"},
    {"podMonitor.honorLabels": "yes"},
    {"podEvents.severity": "error"},
    {"networkPolicy.apiServerPorts": []},
    {"tolerations": {}},
    {"imagePullSecrets": ["registry"]},
    {"canary.nodeLabelValue": True},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_a_sentence_says_what_to_do(case) -> None:
    values, sentence = case
    with pytest.raises(Refused) as refused:
        render(values)
    assert sentence in str(refused.value)
    # Two sentences at most before the rest of what helm writes: what is wrong, and the next step.
    assert re.search(r"\): \w.*\. \w.*\.", str(refused.value))


def test_every_sentence_has_a_case() -> None:
    text = (CHART / "templates" / "_validate.tpl").read_text()
    sentences = re.findall(r'fail (?:\(printf )?"([^"]+)"', text)
    assert len(sentences) == text.count("fail ")
    for sentence in sentences:
        parts = [part for part in sentence.split("%s") if part]
        assert any(_in(cause, parts, sentence) for _, cause in CASES), sentence


def _in(cause: str, parts: list[str], sentence: str) -> bool:
    return (
        cause in sentence
        or any(part.strip() and part.strip() in cause for part in parts)
        or (
            "is the chart's own" in sentence
            and "app.kubernetes.io" in cause
            and "label" in sentence
        )
    )


@pytest.mark.parametrize("values", UNKNOWN, ids=str)
def test_a_name_that_is_unknown_is_refused(values) -> None:
    with pytest.raises(Refused, match="additional properties"):
        render(values)


@pytest.mark.parametrize("values", WRONG, ids=str)
def test_a_value_that_is_none_of_its_own_is_refused(values) -> None:
    with pytest.raises(Refused, match="values don't meet the specifications of the schema"):
        render(values)
