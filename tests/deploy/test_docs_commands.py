"""Every command of the documents is run: in a clone, on a node and in a cluster made for it.

A block ```sh is run as it stands, by a shell, line after line. The programs that it may use are
those of SHIMS (docs_shim.py) and REAL; any other is not found, and fails. Words in capitals that
stand for something are in VALUES.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.cli import COMMANDS, parser
from tests.deploy.docs_blocks import ROOT, Block, blocks, documents, spans, types_a_program
from tests.deploy.image_root import files_of_the_repository
from tests.k8s.fakes.waiting import until

SHIMS = (
    "gpugauge", "kubectl-gpugauge", "kubectl", "helm", "make", "pip", "docker", "sudo", "promtool",
    "python", "python3",
)  # fmt: skip
REAL = (
    "cat", "cp", "curl", "cut", "diff", "env", "grep", "head", "ls", "mkdir", "mv", "rm", "sed",
    "sh", "sleep", "sort", "tail", "tee", "tr", "true", "uniq", "wc", "xargs",
)  # fmt: skip
VALUES = {
    "node-7": "node-a",
    "NAMESPACE/POD": "ml/train-0", "NODE": "node-a", "OUT": "out", "FILE": "made-by-a-test",
    "NAMESPACE": "ml", "VERSION": "0.1.0", "POD": "train-0",
}  # fmt: skip
UNTRIED: dict[str, str] = {}
"""Lines that no test can run, each with the reason. Their first word must be a program all the
same, and each must still stand in a document."""

OWN_AGENT = re.compile(r"gpugauge run|make demo")
ASKS_AGENT = re.compile(r"curl|\bgpugauge (?:top|check|diagnose|explain|record|bugreport)\b")
BLOCKS = [block for path in documents() for block in blocks(path) if block.language == "sh"]


def title(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prepared(block: Block) -> str:
    """Return a block as it is run."""
    lines = [line for line in block.text.splitlines() if line not in UNTRIED]
    text = "\n".join(lines) + "\n"
    for word, value in VALUES.items():
        text = re.sub(rf"(?<![\w/$-]){word}(?![\w=-])", value, text)
    return text


def kind(path: Path) -> str:
    """Return which stage a document needs: it may install the chart itself."""
    text = "".join(block.text for block in blocks(path) if block.language == "sh")
    installs = re.search(r"helm (install|upgrade --install)|kubectl apply -k", text)
    return "empty" if installs else "chart"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of the repository, set up: its packages are those of this environment."""
    folder = tmp_path_factory.mktemp("clone")
    for name in files_of_the_repository():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    venv = folder / ".venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("pyvenv.cfg", "lib"):
        (venv / name).symlink_to(Path(sys.prefix) / name)
    for path in (Path(sys.prefix) / "bin").iterdir():
        if path.name != "gpugauge":
            (venv / "bin" / path.name).symlink_to(path)
    (folder / ".tools").symlink_to(ROOT / ".tools")
    (venv / ".set-up").touch()
    return folder


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory, clone: Path) -> Path:
    folder = tmp_path_factory.mktemp("shims")
    script = Path(__file__).with_name("docs_shim.py")
    for name in SHIMS:
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {script} {name} "$@"\n')
        (folder / name).chmod(0o755)
    for name in REAL:
        found = shutil.which(name)
        assert found, f"install {name}"
        (folder / name).symlink_to(found)
    (clone / ".venv" / "bin" / "gpugauge").symlink_to(folder / "gpugauge")
    return folder


def group_exists(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


class Stage:
    """The node of docs_node.py, and a shell on it."""

    def __init__(self, folder: Path, clone: Path, shims: Path) -> None:
        self.folder, self.clone, self.shims = folder, clone, shims
        own = 'ip link set lo up; mount -t tmpfs none /run; exec "$@"'
        module = [sys.executable, "-m", "tests.deploy.docs_node", str(folder)]
        environment = dict(os.environ) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with (folder / "errors").open("wb") as errors:
            self.child = subprocess.Popen(
                ["unshare", "--net", "--mount", "sh", "-c", own, "sh", *module],
                cwd=ROOT, env=environment, text=True, stderr=errors,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        self.told: dict[str, str] = json.loads(line or "{}")
        if not line:
            self.close()

    def inside(self, *command: str) -> list[str]:
        """Return a command that runs in the node's network, with /run and /dev/shm of its own."""
        own = 'mount -t tmpfs none /run; mount -t tmpfs none /dev/shm; exec "$@"'
        enter = ["nsenter", "--net", f"--target={self.child.pid}"]
        return [*enter, "unshare", "--mount", "sh", "-c", own, "sh", *command]

    def ask(self, what: str) -> None:
        """Set the stage: see docs_node.py."""
        text = "import sys, urllib.request as r; r.urlopen(sys.argv[1], b'', 60).read()"
        address = f"{self.told['API']}/docs/{what}"
        done = subprocess.run(
            self.inside(sys.executable, "-c", text, address), capture_output=True, check=False
        )
        assert done.returncode == 0, f"{what}: {(self.folder / 'errors').read_text()[-4000:]}"

    def run(self, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a block; what it left running is ended."""
        environment = self.told | {
            "PATH": str(self.shims),
            "HOME": str(folder),
            "PYTHONPATH": f"{self.clone / 'src'}:{self.clone}",
            "DOCS_FOLDER": str(folder),
            "DOCS_TOOLS": str(ROOT / ".tools" / "bin"),
            "DOCS_REAL_PATH": os.environ["PATH"],
            "DOCS_CLONE": str(self.clone),
        }
        shell = [shutil.which("env") or "env", "-i"]
        shell += [f"{name}={value}" for name, value in environment.items()]
        child = subprocess.Popen(
            self.inside(*shell, "/bin/sh", "-eu", "-c", text),
            cwd=self.clone, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = child.communicate(timeout=110)
        finally:
            # What runs on in another terminal ends, and so does a block that takes too long.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            child.wait(30)
            until(lambda: not group_exists(child.pid), seconds=30)
        return subprocess.CompletedProcess(text, child.returncode, out, err)

    def close(self) -> None:
        self.child.communicate(timeout=60)
        assert self.child.returncode == 0, (self.folder / "errors").read_text()


@pytest.fixture(scope="module")
def stage(tmp_path_factory, clone: Path, shims: Path) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"), clone, shims)
    yield made
    made.close()


def port_of(text: str) -> str:
    """Return how the node's agent must be reached by the commands of a block; "" if none does."""
    if OWN_AGENT.search(text):
        return "port/none"
    if "port-forward" in text:
        return "port/other"
    return "port/usual" if ASKS_AGENT.search(text) else ""


def documents_with_commands() -> list[Path]:
    """Return them in an order in which no agent waits for another's probes to go."""
    own = {block.path for block in BLOCKS if OWN_AGENT.search(block.text)}
    return sorted({block.path for block in BLOCKS}, key=lambda path: (path in own, path))


@pytest.mark.parametrize("path", documents_with_commands(), ids=title)
def test_every_command_works(path: Path, stage: Stage, tmp_path: Path) -> None:
    stage.ask(f"begin/{kind(path)}")
    port = ""
    for number, block in enumerate(each for each in BLOCKS if each.path == path):
        wanted = port_of(block.text)
        if wanted not in ("", port):  # a block may take the probes off, the next one put them back
            stage.ask(wanted)
            port = wanted
        folder = tmp_path / str(number)
        folder.mkdir()
        done = stage.run(prepared(block), folder)
        assert done.returncode == 0, f"{block.name}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_clean_clone_sets_itself_up(tmp_path: Path) -> None:
    """The same first lines of the README with nothing there: not even a virtual environment."""
    for name in files_of_the_repository():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    for command in (["make", "setup", "bpf"], [".venv/bin/gpugauge", "functions"]):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert list((tmp_path / "src" / "gpugauge" / "ebpf" / "objects").glob("gpu.*.o"))


def test_there_are_commands() -> None:
    assert {"README.md"} <= {block.path.name for block in BLOCKS}


@pytest.mark.parametrize("path", documents(), ids=title)
def test_what_is_to_be_typed_is_marked_as_such(path: Path) -> None:
    for block in blocks(path):
        if block.language != "sh":
            typed = [line for line in block.text.splitlines() if types_a_program(line)]
            assert typed == [], f"{block.name}: begin the block with ```sh, so that it is tested"


def test_what_is_untried_still_stands_in_a_document() -> None:
    lines = {line for block in BLOCKS for line in block.text.splitlines()}
    assert UNTRIED.keys() <= lines
    assert all(types_a_program(line) and reason for line, reason in UNTRIED.items())


def flags() -> dict[str, set[str]]:
    """Return the flags of each command of gpugauge."""
    (commands,) = [each for each in parser()._actions if each.dest == "command"]
    assert isinstance(commands.choices, dict)
    return {name: set(sub._option_string_actions) for name, sub in commands.choices.items()}


@pytest.mark.parametrize("path", documents(), ids=title)
def test_commands_within_lines_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    known = flags()
    for span in spans(path):
        words = span.replace("kubectl gpugauge", "gpugauge").removeprefix("sudo ").split()
        if len(words) > 1 and words[0] == "make" and re.fullmatch(r"[a-z-]+", words[1]):
            assert words[1] in targets, f"{path.name}: {span}"
        if len(words) > 1 and words[0] == "gpugauge" and re.fullmatch(r"[a-z-]+", words[1]):
            assert words[1] in COMMANDS, f"{path.name}: {span}"
            given = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
            assert given <= known[words[1]], f"{path.name}: {span}"
