"""The agent's container as a runtime makes it of the rendered pod: by runc, with the real agent.

What the pod says is translated, nothing else is given: capabilities, read-only root, new
privileges, PID namespace, variables and mounts. Devices are what a runtime allows: a few harmless
ones, or all for a privileged container.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.deploy.chart import ROOT, Object, Rendered
from tests.k8s.fakes.containers import BINDS, RUNC, Container
from tests.k8s.fakes.objects import NODE

PYTHON = sorted({Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]} - {Path("/usr")})
IMAGE = (*map(Path, BINDS), ROOT, Path(sys.prefix), *PYTHON)
"""What stands for the image: this machine's programs and this repository, read-only."""
_EVERYTHING = """
    BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL MKNOD
    NET_BIND_SERVICE NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_CHROOT
    SYS_PTRACE
"""
ALL_CAPABILITIES = [f"CAP_{name}" for name in _EVERYTHING.split()]
"""Of a privileged container; those that machines of tests lack are left out."""


def capabilities(context: Object) -> list[str]:
    """Return the capabilities of a container."""
    if context.get("privileged"):
        return ALL_CAPABILITIES
    assert context["capabilities"]["drop"] == ["ALL"]
    return [f"CAP_{name}" for name in context["capabilities"]["add"]]


def run_agent(
    folder: Path,
    rendered: Rendered,
    *,
    name: str = "",
    environment: dict[str, str] | None = None,
    binds: list[Path] | None = None,
    service_account: Path | None = None,
    command: list[str] | None = None,
    without: frozenset[str] = frozenset(),
    host_run: Path | None = None,
) -> Container:
    """Start the agent as the rendered DaemonSet says; returns at once.

    Args:
        folder: A new folder for the bundle.
        rendered: The chart.
        name: Of the DaemonSet.
        environment: More variables: those of the simulated driver.
        binds: More folders, read-only, at the same path.
        service_account: What the kubelet projects into the pod.
        command: Instead of the image's entry point.
        without: Capabilities that are left out, to see what is lost.
        host_run: What stands for the host's /run: tests share a machine. None: one of its own.
    """
    pod, container = rendered.pod(name), rendered.container(name)
    context = container["securityContext"]
    folder.mkdir(parents=True)
    host_run = host_run or folder / "run"
    host_run.mkdir(exist_ok=True)
    root = folder / "root"
    mounts = [_image(root, one) for one in (*IMAGE, *(binds or [])) if one.exists()]
    volumes = {one["name"]: one for one in pod["volumes"]}
    for mount in container["volumeMounts"]:
        source = _source(folder, rendered, volumes[mount["name"]], mount, host_run)
        if mount["mountPath"] == "/dev":
            mounts = [one for one in mounts if one["destination"] != "/dev"]
        mounts.append(_bind(root, source, mount["mountPath"], mount.get("readOnly", False)))
    if service_account:
        target = "/var/run/secrets/kubernetes.io/serviceaccount"
        mounts.append(_bind(root, service_account, target, True))
    held = [one for one in capabilities(context) if one.removeprefix("CAP_") not in without]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    env |= {one["name"]: one.get("value", NODE) for one in container["env"]}
    env |= environment or {}
    entry = command or [sys.executable, "-m", "gpugauge", *container["args"]]
    own_dev = any(one["destination"] == "/dev" for one in mounts)
    config: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
            "args": entry,
            "env": [f"{key}={text}" for key, text in env.items()],
            "cwd": "/",
            "noNewPrivileges": not context.get("allowPrivilegeEscalation", True),
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
        },
        "root": {"path": str(root), "readonly": context["readOnlyRootFilesystem"]},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind", "ro"]},
            *([] if own_dev else [_tmpfs("/dev")]),
            *sorted(mounts, key=lambda one: one["destination"].count("/")),
        ],
        "linux": {
            "cgroupsPath": f"/gpugauge-chart-{os.getpid()}/{folder.name}",
            "resources": {"devices": [{"allow": bool(context.get("privileged")), "access": "rwm"}]},
            "namespaces": [{"type": "mount"}, {"type": "ipc"}]
            + ([] if pod["hostPID"] else [{"type": "pid"}]),
        },
    }
    for one in ("proc", "sys", "dev"):
        (root / one).mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    made = Container(folder, folder.name)
    with (folder / "output").open("wb") as output:
        started = subprocess.run(
            [RUNC, "--root", str(made.state), "run", "--detach", made.id],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=30,
            check=False,
        )
    assert started.returncode == 0, (folder / "output").read_text()
    return made


def _tmpfs(path: str) -> Object:
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]}


def _image(root: Path, source: Path) -> Object:
    return _bind(root, source, str(source), True)


def _bind(root: Path, source: Path, target: str, read_only: bool) -> Object:
    inside = root / target.lstrip("/")
    inside.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        inside.mkdir(exist_ok=True)
    else:
        inside.touch()
    options = ["rbind", "ro" if read_only else "rw"]
    return {"destination": target, "type": "bind", "source": str(source), "options": options}


def _source(
    folder: Path, rendered: Rendered, volume: Object, mount: Object, host_run: Path
) -> Path:
    """What the kubelet gives for a volume."""
    if "hostPath" in volume:
        path = Path(volume["hostPath"]["path"])
        if path.is_relative_to("/run"):
            path = host_run / path.relative_to("/run")
        if volume["hostPath"]["type"] == "FileOrCreate":
            path.touch()
        assert path.is_dir() or volume["hostPath"]["type"] == "FileOrCreate", path
        return path
    made = folder / "volumes" / volume["name"]
    made.mkdir(parents=True, exist_ok=True)
    if "configMap" in volume:
        for key, text in rendered.one("ConfigMap", volume["configMap"]["name"])["data"].items():
            (made / key).write_text(text)
    if "secret" in volume:
        for key, text in rendered.one("Secret", volume["secret"]["secretName"])["data"].items():
            (made / key).write_bytes(base64.b64decode(text))
    return made / mount["subPath"] if "subPath" in mount else made
