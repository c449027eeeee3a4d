"""What is in the image, and an agent that runs on nothing else, with a read-only root."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from tools.image_pins import read_pins

from tests.deploy import image_root
from tests.deploy.image_root import FOLDER, IMAGE, Root, dockerfile, dockerfile_environment
from tests.deploy.test_image_wheel import build_elsewhere
from tests.k8s.fakes.api_server import FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.objects import NODE
from tests.k8s.fakes.waiting import until
from tests.k8s.whole import Cluster, by_pod, wait_for
from tests.linux.agents import AgentProcess

IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\w+)", re.M)
LISTED = tomllib.loads((IMAGE / "imports.toml").read_text())


class ImageCluster(Cluster):
    """A node whose agent is the image's."""

    def __init__(self, folder: Path, installed: Path, *asked: object) -> None:
        super().__init__(folder, *asked)  # type: ignore[arg-type]
        self.root = Root(folder / "root")
        self.written = folder / "written"
        self.written.mkdir()
        self.root.bind(self.written, Path("/run"), writable=True)  # as the chart's emptyDir
        self.root.bind(installed, Path(FOLDER))
        # The simulated driver keeps its state in a file, where a real one has devices.
        self.root.bind(folder, writable=True)

    def start_agent(self) -> AgentProcess:
        """Start the image's program in its root, and let Python say what it imports."""
        (program,) = json.loads(re.findall(r"^ENTRYPOINT (.*)$", dockerfile(), re.M)[0])
        as_it_is = 'shift 3; unset PYTHONPATH; exec "$0" "$@"'  # python -m gpugauge goes
        self.agent = AgentProcess(
            self.folder, self.machine, f"--kubernetes-kubeconfig={self.kubeconfig}",
            "--kubernetes-mode=on", f"--kubernetes-kubelet-path={self.kubelet.kubelet_path}",
            f"--node-name={NODE}", f"--attach-libraries={self.a.library},{self.b.library}",
            "--tick-seconds=0.2", "--series-launch-threads=true",
            prefix=(*self.root.prefix, "/bin/sh", "-c", as_it_is, program),
            env=dockerfile_environment() | {"PYTHONPROFILEIMPORTTIME": "1"},
        )  # fmt: skip
        self.agent.wait_ready()
        return self.agent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_root.install(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def running(tmp_path_factory, installed):
    """An agent that has seen two pods with a GPU, and answered every kind of page."""
    folder = tmp_path_factory.mktemp("node")
    with FakeApiServer() as server, FakeKubelet(folder / "kubelet") as kubelet:
        made = ImageCluster(folder, installed, server, kubelet)
        try:
            made.give(made.a, made.b)
            agent = made.start_agent()
            for pod in (made.a, made.b):
                pod.start()
                pod.show()
                pod.work()
            pods = {"a", "b"}
            # By probes, the kubelet, and NVML.
            for name in ("launches_total", "entitled_gpus", "memory_held_bytes"):
                wait_for(made, lambda text, name=name: set(by_pod(text, name)) == pods)
            for page in ("findings", "explain?namespace=ml&pod=a", "report", "snapshot"):
                assert agent.status(f"/api/v1/{page}") == 200, page
            yield made
        finally:
            made.close()


def site_packages(installed: Path) -> Path:
    (place,) = installed.glob("lib/python3*/site-packages")
    return place


def packages(installed: Path) -> dict[str, Distribution]:
    """Return what is installed, by name."""
    found = distributions(path=[str(site_packages(installed))])
    return {each.name.lower().replace("_", "-"): each for each in found}


def test_only_what_is_pinned_is_installed(installed):
    pins = {pin.name: pin.version for pin in read_pins(IMAGE / "requirements.txt")}
    found = {name: each.version for name, each in packages(installed).items()}
    own = found.pop("gpugauge")
    assert found == pins
    (shown,) = re.findall(r"^ARG VERSION=(.+)$", dockerfile(), re.M)
    assert own == shown


def test_licences_are_those_that_the_packages_state(installed):
    licences = tomllib.loads((IMAGE / "licences.toml").read_text())["image"]
    for name, package in packages(installed).items():
        stated = package.metadata.get("License-Expression")
        if name in licences and stated:
            assert licences[name] == stated, name
        elif name in licences:
            older = " ".join(
                [package.metadata.get("License") or "", *package.metadata.get_all("Classifier", [])]
            )
            assert licences[name].partition("-")[0] in older, name


def test_no_installer_compiler_or_test_is_in_it(installed):
    programs = {path.name for path in (installed / "bin").iterdir()}
    version = {name for name in programs if re.fullmatch(r"python3\.\d+", name)}
    assert programs - version == {"gpugauge", "kubectl-gpugauge", "py-spy", "python", "python3"}
    for name in ("pip", "setuptools", "ziglang", "hatchling", "pytest", "tests", "sim"):
        assert not (site_packages(installed) / name).exists(), name
    sources = {path.suffix for path in (site_packages(installed) / "gpugauge").rglob("*.*")}
    assert sources == {".py", ".pyc", ".o"}


def test_every_module_is_compiled_and_no_time_stamp_is_asked(installed):
    modules = list(site_packages(installed).rglob("*.py"))
    assert len(modules) > 100
    for path in modules:
        compiled = Path(importlib.util.cache_from_source(str(path)))
        flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
        assert flags == 1, f"{path}: not compiled by hash, unchecked"


def test_the_sbom_has_the_hashes_of_what_is_installed(installed):
    bom = json.loads((installed / "sbom.cdx.json").read_text())
    objects = [each for each in bom["components"] if each["type"] == "file"]
    assert len(objects) == len(list(site_packages(installed).rglob("*.o"))) > 0
    for each in objects:
        data = (site_packages(installed) / each["name"]).read_bytes()
        assert each["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]


def test_the_wheel_in_the_image_is_the_one_that_anybody_builds(installed, tmp_path):
    bom = json.loads((installed / "sbom.cdx.json").read_text())
    wheel = build_elsewhere(tmp_path, "zig").read_bytes()
    content = hashlib.sha256(wheel).hexdigest()
    assert bom["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": content}]


def test_it_writes_only_its_lock(running):
    assert [path.name for path in running.written.iterdir()] == ["gpugauge.lock"]
    assert "Traceback" not in running.agent.text
    assert "Read-only file system" not in running.agent.text


def test_it_imports_only_what_is_listed(running, installed):
    names = set(IMPORTED.findall(running.agent.text))
    standard = {name for name in names & set(sys.stdlib_module_names) if name[0] != "_"}
    # Names that were tried and do not exist are in the log too: other systems', optional ones.
    standard = {name for name in standard if importlib.util.find_spec(name)}
    there = {path.name.partition(".")[0] for path in site_packages(installed).iterdir()}
    foreign = (names & there) - set(sys.stdlib_module_names)
    assert standard - set(LISTED["standard_library"]["modules"]) == set()
    assert foreign == LISTED["packages"].keys()


def test_what_is_installed_is_imported_or_said_not_to_be(installed):
    unused = set()
    for name, package in packages(installed).items():
        tops = {str(path).partition("/")[0].partition(".")[0] for path in package.files or ()}
        if not tops & LISTED["packages"].keys():
            unused.add(name)
    assert unused == LISTED["not_imported"].keys()


def test_it_maps_only_libraries_that_are_listed(running):
    lines = Path(f"/proc/{running.agent.child.pid}/maps").read_text().splitlines()
    mapped = {Path(line.split()[-1]).name.partition(".so")[0] for line in lines if ".so" in line}
    # Extension modules came with a package or with Python: what is imported is held above.
    system = {name for name in mapped if ".cpython-" not in name and not name.endswith(".abi3")}
    system -= {f"libpython3.{sys.version_info[1]}"}
    assert "libc" in system
    assert system - set(LISTED["libraries"]["names"]) == set()


def documented_bytes(what: str) -> int:
    """Return a figure of docs/support.md."""
    text = (image_root.ROOT / "docs" / "support.md").read_text()
    (figure,) = re.findall(rf"^\| {re.escape(what)} \| (\d+) MiB \|$", text, re.M)
    return int(figure) << 20


def test_it_is_as_small_as_documented(running, installed):
    """Run with `-s` to see the figures."""
    status = Path(f"/proc/{running.agent.child.pid}/status").read_text()
    resident = int(re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.M)[0]) * 1024
    # Not blocks on disk: how much a file system takes for small files is its own affair.
    files = [path for path in installed.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    sys.stdout.write(f"\nresident {resident / 2**20:.0f} MiB, installed {size / 2**20:.0f} MiB\n")
    shown = documented_bytes("resident memory of the agent")
    assert 0.6 * shown < resident < 1.4 * shown
    shown = documented_bytes("installed in `/opt/gpugauge`")
    assert 0.8 * shown < size < 1.2 * shown


def test_py_spy_reads_stacks_from_the_read_only_root(running):
    program = "def waits_here(): input()\nwaits_here()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        command = (f"{FOLDER}/bin/py-spy", "dump", "--nonblocking", "--pid", str(child.pid))
        until(lambda: "waits_here" in running.root.run(*command, check=False), seconds=30)
        child.communicate(b"\n")
