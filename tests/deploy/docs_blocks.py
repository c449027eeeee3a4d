"""Commands in Markdown: where they stand, and what they are."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.M | re.S)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PROGRAMS = (
    "gpugauge", "kubectl", "helm", "make", "pip", "docker", "curl", "promtool", "sudo", "git",
    "python", "python3",
)  # fmt: skip
"""What begins a line that somebody is to type."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document."""

    path: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Where it is, for people."""
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Return every Markdown file of the repository."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(ROOT / name for name in set(done.stdout.split("\0")) if (ROOT / name).is_file())


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    text = path.read_text()
    found = []
    for match in FENCE.finditer(text):
        indent, _, language, body = match.groups()
        lines = [line.removeprefix(indent) for line in body.splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        found.append(Block(path, number, language.strip(), "\n".join(lines) + "\n"))
    return found


def spans(path: Path) -> list[str]:
    """Return the code within lines, outside of fenced blocks."""
    return SPAN.findall(FENCE.sub("", path.read_text()))


def types_a_program(line: str) -> bool:
    """Return whether a line looks like one that is to be typed."""
    words = line.strip().removeprefix("$ ").split()
    return bool(words) and words[0] in PROGRAMS and len(words) > 1
