"""Real containers, by runc, in cgroups named as the kubelet names them.

Needs root and runc. Each container has its own pid, mount, network, IPC and UTS
namespace; its root holds read-only binds of this machine's programs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

RUNC = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""
BINDS = ("/bin", "/lib", "/lib64", "/usr", "/sbin")


class Container:
    """One container that runs until `delete`."""

    def __init__(self, folder: Path, container_id: str) -> None:
        self.folder = folder
        self.id = container_id
        self.state = folder / "state"

    def runc(self, *words: str) -> str:
        """Run runc on this container's own state folder; its output."""
        command = [RUNC, "--root", str(self.state), *words]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    @property
    def pid(self) -> int:
        """The host's pid of the container's first process."""
        return int(json.loads(self.runc("state", self.id))["pid"])

    @property
    def status(self) -> str:
        """`running` or `stopped`."""
        return str(json.loads(self.runc("state", self.id))["status"])

    @property
    def output(self) -> str:
        """What it wrote."""
        return (self.folder / "output").read_text()

    def delete(self) -> None:
        """Kill and remove it, its cgroups with it."""
        self.runc("delete", "--force", self.id)


def run_container(
    folder: Path,
    container_id: str,
    cgroup: str,
    command: list[str],
    *,
    cpu_quota_cores: float | None = None,
    mounts: list[Path] | None = None,
    writable: list[Path] | None = None,
    own_pids: bool = True,
    environment: dict[str, str] | None = None,
    user: int = 0,
) -> Container:
    """Start a container and return at once.

    Args:
        folder: A new folder for its bundle.
        container_id: 64 hex digits.
        cgroup: Its cgroup (`/kubepods/burstable/podUID/ID`).
        command: What it runs.
        cpu_quota_cores: Its CPU limit.
        mounts: More folders of this machine that it sees, at the same path.
        writable: The same, writable.
        own_pids: False for a pod with `hostPID: true`.
        environment: Its variables.
        user: Who it runs as.
    """
    assert RUNC, "these tests need runc: apt-get install runc"
    folder.mkdir(parents=True)
    root = folder / "root"
    binds = [(one, "ro") for one in (*map(Path, BINDS), *(mounts or [])) if one.exists()]
    binds += [(one, "rw") for one in writable or []]
    for one in ("proc", "dev", "sys", "tmp", *(str(source).lstrip("/") for source, _ in binds)):
        (root / one).mkdir(parents=True, exist_ok=True)
    cpu: dict[str, Any] = {"shares": 102}
    if cpu_quota_cores:
        cpu |= {"period": 100_000, "quota": int(cpu_quota_cores * 100_000)}
    kinds = ["mount", "network", "ipc", "uts", *(["pid"] if own_pids else [])]
    # No oomScoreAdj: without CAP_SYS_RESOURCE runc cannot lower it, and fails.
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": user, "gid": user},
            "args": command,
            "env": [
                f"{k}={v}" for k, v in {"PATH": "/usr/bin:/bin", **(environment or {})}.items()
            ],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": str(root), "readonly": False},
        "hostname": "pod",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
            *(
                {
                    "destination": str(source),
                    "type": "bind",
                    "source": str(source),
                    "options": ["rbind", access],
                }
                for source, access in binds
            ),
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": {"cpu": cpu},
            "namespaces": [{"type": kind} for kind in kinds],
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    made = Container(folder, container_id)
    with (folder / "output").open("wb") as output:
        started = subprocess.run(
            [RUNC, "--root", str(made.state), "run", "--detach", container_id],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=30,
            check=False,
        )
    assert started.returncode == 0, (folder / "output").read_text()
    return made


def remove_empty_cgroups(path: str) -> None:
    """Remove a cgroup that tests made, and its empty children, in every hierarchy."""
    for root in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        base = root / path.lstrip("/")
        if not base.is_dir():
            continue
        folders = [one for one in base.rglob("*") if one.is_dir()]
        for one in [*sorted(folders, key=lambda f: -len(f.parts)), base]:
            try:
                one.rmdir()
            except OSError:
                continue
