"""What stands for a program while documented commands are run: `python docs_shim.py NAME ARGS`.

Real programs do the work. A shim only steps in where a command would not come back, as it is meant
to run in another terminal, or where it needs what a test does not have. DOCS_FOLDER is for what
such a command writes; DOCS_TOOLS has helm, kubectl and promtool.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

FOLDER = Path(os.environ["DOCS_FOLDER"])
TOOLS = Path(os.environ["DOCS_TOOLS"])
REAL_PATH = os.environ["DOCS_REAL_PATH"]
CLONE = Path(os.environ["DOCS_CLONE"])
LOOKS = {"check", "diagnose", "explain"}
"""Commands whose code 1 says that they found something."""
WAIT_SECONDS = 40
LIGHT_TARGETS = {"help", "setup", "bpf", "sim", "demo", "tools"}
"""Targets of make that are run; of the others it is asked what they would do."""


def run(command: list[str], *, found_is_good: bool = False, **more: str) -> int:
    """Run a program to its end."""
    done = subprocess.run(command, check=False, timeout=WAIT_SECONDS, env=dict(os.environ) | more)
    return 0 if done.returncode == 1 and found_is_good else done.returncode


def with_tools() -> str:
    """Return a PATH on which gpugauge finds the real kubectl, and kubectl its plugin."""
    return f"{TOOLS}:{os.environ['PATH']}"


def start(command: list[str], ready: str) -> int:
    """Start what runs until it is ended, and wait until its output has a text."""
    log = FOLDER / f"log-{time.monotonic_ns()}"
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if re.search(ready, log.read_text(errors="replace")):
            return 0
        if child.poll() is not None:
            break
        time.sleep(0.05)
    sys.stderr.write(log.read_text(errors="replace"))
    return 1


def gpugauge(arguments: list[str], name: str = "gpugauge") -> int:
    """Run gpugauge of the clone; the agent in the background, until the end of the block."""
    text = f"import sys; sys.argv[0] = {name!r}; from gpugauge.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", text, *arguments]
    verb = arguments[0] if arguments else ""
    if verb != "run" or "--help" in arguments:
        return run(command, found_is_good=verb in LOOKS, PATH=with_tools())
    os.environ.setdefault("GPUGAUGE_KUBERNETES_MODE", "off")
    code = start(command, r"serving on port \d+")
    wanted = b"gpugauge_blocked_seconds_total{"
    end = time.monotonic() + WAIT_SECONDS
    while code == 0 and time.monotonic() < end:
        try:
            with urllib.request.urlopen("http://127.0.0.1:9836/metrics", timeout=5) as answer:
                if wanted in answer.read():
                    break
        except OSError:
            break  # another port was asked for
        time.sleep(0.1)
    else:
        sys.stderr.write("".join(each.read_text() for each in FOLDER.glob("log-*")))
        return code or 1
    return code


def kubectl(arguments: list[str]) -> int:
    """Run kubectl against the fake API server."""
    program = str(TOOLS / "kubectl")
    if "port-forward" in arguments:
        return start([program, *arguments], r"Forwarding from")
    if "exec" in arguments:
        # No container: the flags are parsed, and the program is run on the node.
        at = arguments.index("--")
        code = run([program, *arguments[:at], "--help"])
        return code or run(arguments[at + 1 :])
    if "logs" in arguments:
        return run([program, *arguments, "--help"])
    return run(
        [program, *arguments],
        PATH=with_tools(),
        found_is_good=arguments[:1] in (["gpugauge"], ["diff"]),
    )


def helm(arguments: list[str]) -> int:
    """Run helm against the fake API server."""
    return run([str(TOOLS / "helm"), *arguments])


def make(arguments: list[str]) -> int:
    """Run make in the clone, or ask it what it would do."""
    targets = {word for word in arguments if "=" not in word and not word.startswith("-")}
    dry = [] if targets <= LIGHT_TARGETS else ["--dry-run"]
    command = ["/usr/bin/make", "-C", str(CLONE), *dry, *arguments]
    if "demo" in targets:  # takes a minute, which tests/incidents/test_demo.py waits for
        os.environ["PATH"] = REAL_PATH
        return start(command, r"launches/s")
    return run(command, PATH=REAL_PATH)


def pip(arguments: list[str]) -> int:
    """Let pip resolve what it would install; a released gpugauge is this one."""
    own = [re.sub(r"^gpugauge(?=\[|$)", ".", word) for word in arguments]
    if own[:1] == ["install"]:
        own[1:1] = ["--dry-run", "--quiet", "--no-build-isolation"]
    return run([sys.executable, "-m", "pip", *own], PATH=REAL_PATH)


def docker(arguments: list[str]) -> int:
    """Check what a build is given: there is no engine."""
    if arguments[:1] != ["build"]:
        return 127
    text, wanted, words = "", [], iter(arguments[1:])
    for word in words:
        if word in {"-f", "--file"}:
            text = Path(next(words)).read_text()
        elif word == "--build-arg":
            wanted.append(next(words).partition("=")[0])
        elif word in {"-t", "--tag"}:
            next(words)
        elif word.startswith("-"):
            return 125
        elif not Path(word).is_dir():
            return 1
    declared = set(re.findall(r"^ARG (\w+)", text, re.M))
    return 0 if text and set(wanted) <= declared else 1


def sudo(arguments: list[str]) -> int:
    """Run the rest: the tests are root."""
    os.execvp(arguments[0], arguments)


def main(name: str, arguments: list[str]) -> int:
    """Be the program of this name."""
    match name:
        case "kubectl-gpugauge":
            return gpugauge(arguments, name)
        case "promtool":
            return run([str(TOOLS / "promtool"), *arguments])
        case "python" | "python3":
            return run([sys.executable, *arguments], PATH=REAL_PATH)
        case _:
            return int(globals()[name](arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
