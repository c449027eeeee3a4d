"""The real agent in the container that the chart describes: by runc, on a simulated driver.

What docs/permissions.md says of a capability is tried by taking it away.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request

import pytest

from tests.deploy.chart import render
from tests.deploy.chart_place import (
    LAUNCHES,
    ContainerAgent,
    attached,
    let_work,
)
from tests.k8s.fakes.waiting import until
from tests.k8s.whole import by_pod

QUICK = {"settings.tick_seconds": 0.1, "settings.scan_seconds": 0.5}
PRESETS = {
    "capabilities": {},
    "privileged": {"security.preset": "privileged", "driver.access": "hostPath"},
}


def launches(agent: ContainerAgent) -> dict[str, float]:
    return by_pod(agent.get("/metrics"), "launches_total")


@pytest.mark.parametrize("preset", PRESETS)
def test_the_agent_counts_what_a_pod_of_another_user_does(place, preset) -> None:
    agent = place.start(render(place.values(**PRESETS[preset])))
    agent.wait_ready()
    orders = place.start_pod("a", mode=0o700)
    until(lambda: attached(agent, "a"), seconds=60)
    let_work(orders)
    until(lambda: launches(agent).get("a") == LAUNCHES, seconds=60)
    assert "Traceback" not in agent.text, agent.text
    agent.end()


@pytest.mark.parametrize("lost", ["BPF", "PERFMON"])
def test_without_it_nothing_works(place, lost) -> None:
    agent = place.start(render(place.values()), without=frozenset({lost}))
    until(lambda: agent.container.status == "stopped", seconds=60)
    assert re.search(r"gpugauge: .*\. Give the agent the capability", agent.text, re.S), agent.text


@pytest.mark.parametrize("lost", ["SYS_PTRACE", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH"])
def test_without_it_a_library_in_a_container_is_not_reached(place, lost) -> None:
    """The library lies in no place that the agent sees, and is its owner's alone."""
    agent = place.start(render(place.values(**QUICK)), without=frozenset({lost}))
    agent.wait_ready()
    orders = place.start_pod("a", mode=0o700)
    for _ in range(15):  # of a tenth of a second: it is scanned several times meanwhile
        agent.next_snapshot()
    assert not attached(agent, "a"), agent.text
    let_work(orders)
    agent.next_snapshot()
    assert "a" not in launches(agent)


AS_NOBODY = """
import os, signal, subprocess, sys
code = "import os, time; os.setgroups([]); os.setresgid(65534, 65534, 65534);"
code += "os.setresuid(65534, 65534, 65534); print('gone', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE)
assert child.stdout.readline() == b"gone\\n", "it stayed root"
held = open(f"/proc/{child.pid}/status").read()
assert "CapEff:\\t0000000000000000" in held, held
child.kill()
print("ended", child.wait())
"""


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("", "ended -9"),
        ("SETUID", "it stayed root"),
        ("SETGID", "it stayed root"),
        ("KILL", "PermissionError"),
    ],
)
def test_the_child_that_reads_foreign_files_is_nobody_and_can_be_ended(place, lost, said) -> None:
    command = [sys.executable, "-c", AS_NOBODY]
    made = place.start(render(place.values()), without=frozenset({lost}), command=command)
    until(lambda: made.container.status == "stopped", seconds=60)
    assert said in made.text, made.text
    leftover = re.search(r"pid=(\d+)", made.text)
    assert leftover is None


def test_one_agent_a_node_whatever_pool_it_is_of(place) -> None:
    values = place.values(**{"canary.enabled": True})
    first = place.start(render(values), name="gpugauge")
    first.wait_ready()
    second = place.start(render(values), name="gpugauge-canary")
    until(lambda: second.container.status == "stopped", seconds=60)
    assert f"Another gpugauge agent runs on this node (pid {first.container.pid})" in second.text
    assert first.status("/readyz") == 200


def test_a_node_without_a_gpu_idles(place) -> None:
    """No driver, no library, no device: ready, silent, alive, and small."""
    agent = place.start(render(place.values(**QUICK)))
    agent.wait_ready()
    for _ in range(10):
        agent.next_snapshot()
    text = agent.get("/metrics")
    assert "gpugauge_agent_info{" in text
    assert "gpugauge_device_info{" not in text
    assert agent.status("/healthz") == 200
    assert "Traceback" not in agent.text and "ERROR" not in agent.text, agent.text
    agent.end()


def test_the_token_of_the_secret_opens_the_api(place) -> None:
    token = "correct-horse-battery-staple"
    agent = place.start(render(place.values(**{"api.exposed": True, "api.token.value": token})))
    agent.wait_ready()
    url = f"http://127.0.0.1:{agent.port}/api/v1/snapshot"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url, timeout=10)
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert answer.status == 200
    assert token not in agent.text


def test_nothing_outside_its_volumes_can_be_written(place) -> None:
    script = "touch /x /etc/x /dev/shm/x /sys/fs/cgroup/x; touch /tmp/ok && echo tmp; echo end"
    made = place.start(render(place.values()), command=["sh", "-c", script])
    until(lambda: made.container.status == "stopped", seconds=60)
    assert made.text.count("touch: ") == 4 and "tmp\nend" in made.text, made.text


@pytest.mark.parametrize(("preset", "reads"), [("capabilities", False), ("privileged", True)])
def test_the_linux_log_needs_the_preset_privileged(place, preset, reads) -> None:
    """/dev/kmsg is a device that only privileged containers are allowed, whatever they hold."""
    script = "mknod /tmp/kmsg c 1 11; dd if=/tmp/kmsg bs=8192 count=1 2>/dev/null | wc -c"
    made = place.start(render(place.values(**PRESETS[preset])), command=["sh", "-c", script])
    until(lambda: made.container.status == "stopped", seconds=60)
    assert (int(made.text.split()[-1]) > 0) is reads, made.text
