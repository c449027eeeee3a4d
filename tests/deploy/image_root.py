"""The image without an engine: its folder installed into an empty root, and an agent started there.

`deploy/image/install.sh` is what the Dockerfile runs. This machine's system folders and its Python
stand for the base image; nothing else of this machine is in the root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "deploy" / "image"
FOLDER = "/opt/gpugauge"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
# A virtual environment's interpreter is a chain of links that ends outside it.
PYTHON = sorted({Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]} - {Path("/usr")})


def dockerfile() -> str:
    """Return its text."""
    return (IMAGE / "Dockerfile").read_text()


def dockerfile_environment() -> dict[str, str]:
    """Return the variables that the image sets."""
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", dockerfile(), re.M)
    return dict(word.split("=", 1) for word in block.replace("\\\n", " ").split())


def copy_context(target: Path) -> None:
    """Copy what an engine would be sent: the repository's files, cut down by .dockerignore.

    Of its forms only those are known that our file uses: `*`, `!FOLDER_OR_FILE` and `**/NAME`.
    """
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = tuple(rule[1:] for rule in rules if rule.startswith("!"))
    never = tuple(rule.removeprefix("**/") for rule in rules if rule.startswith("**/"))
    assert len(kept) + len(never) + 1 == len(rules), rules
    for name in files_of_the_repository():
        path = Path(name)
        within = any(path.is_relative_to(each) for each in kept)
        if within and not any(part.match(each) for part in (path, *path.parents) for each in never):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, target / path)


def files_of_the_repository() -> list[str]:
    """Return the files that git tracks, or would if they were added."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


class Root:
    """A folder that becomes / for a command, in a mount name space of its own.

    All of it is read-only but what `bind` makes writable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mounts = ["set -eu"]
        folder.mkdir()
        self._mount(f"--bind '{folder}'", folder)
        for name in ("tmp", "run"):
            (folder / name).mkdir()
        for name in ("proc", "sys", "dev"):
            self._mount(f"--rbind /{name}", self.inside(Path("/", name)))
        for name in SYSTEM:
            if Path(name).is_symlink():
                (folder / name[1:]).symlink_to(Path(name).readlink())
            elif Path(name).exists():
                self.bind(Path(name))
        for path in PYTHON:
            self.bind(path)

    def inside(self, path: Path) -> Path:
        """Return where a path of the root is on this machine; a folder is made there."""
        where = self.folder / path.relative_to("/")
        where.mkdir(parents=True, exist_ok=True)
        return where

    def bind(self, path: Path, at: Path | None = None, *, writable: bool = False) -> None:
        """Show a folder of this machine in the root, at the same path or another."""
        where = self.inside(at or path)
        self._mount(f"--bind '{path}'", where)
        if not writable:
            self._mount("-o remount,bind,ro", where)

    def _mount(self, how: str, where: Path) -> None:
        self._mounts.append(f"mount {how} '{where}'")

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command to run it there."""
        last = [f"mount -o remount,bind,ro '{self.folder}'", f"exec chroot '{self.folder}' \"$@\""]
        return ("unshare", "--mount", "sh", "-c", "\n".join(self._mounts + last), "sh")

    def run(self, *command: str, check: bool = True, **environment: str) -> str:
        """Run a command there and return its output.

        Args:
            command: The program and its arguments.
            check: Whether it must succeed.
            environment: More variables.
        """
        done = subprocess.run(
            [*self.prefix, *command], capture_output=True, text=True, check=False,
            env=dict(os.environ) | environment,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


def install(folder: Path) -> Path:
    """Make the image's folder as the Dockerfile does, and return where it is on this machine.

    Args:
        folder: An empty one of the test.
    """
    context, wheels, made = folder / "context", folder / "wheels", folder / "made"
    copy_context(context)
    made.mkdir()
    pins = IMAGE / "requirements.txt"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(wheels), "-r", str(pins)]
    subprocess.run(command, check=True)
    root = Root(folder / "build-root")
    root.bind(Path(sys.prefix))
    root.bind(wheels, Path("/wheels"))
    root.bind(context, Path("/build"), writable=True)
    root.bind(made, Path(FOLDER).parent, writable=True)
    (folder / "scratch").mkdir()
    root.bind(folder / "scratch", Path("/scratch"), writable=True)
    root.run(
        "sh", "/build/deploy/image/install.sh", sys.executable, FOLDER,
        PIP_CONFIG_FILE="/dev/null", PIP_NO_INDEX="1", PIP_FIND_LINKS="/wheels", HOME="/scratch",
        TMPDIR="/scratch",
        PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    return made / Path(FOLDER).name
