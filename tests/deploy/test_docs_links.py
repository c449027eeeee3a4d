"""Every relative link of a document leads to a file, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.docs_blocks import FENCE, ROOT, SPAN, documents

LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
REFERENCE = re.compile(r"^\[[^\]]+\]: (\S+)", re.M)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.M)
NAMED = re.compile(r"""<a (?:id|name)=["']([^"']+)["']""")
ADDRESS = re.compile(r"[a-z][a-z+.-]*:")


def links(path: Path) -> list[str]:
    """Return the relative links of a document."""
    text = SPAN.sub("", FENCE.sub("", path.read_text()))
    found = LINK.findall(text) + REFERENCE.findall(text)
    return [link for link in found if not ADDRESS.match(link)]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document, as code hosts make them of headings."""
    text = FENCE.sub("", path.read_text())
    found: set[str] = set(NAMED.findall(text))
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (name := f"{base}-{number}" if number else base) in found:
            number += 1
        found.add(name)
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link}: there is no such file"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{link}: there is no such heading"


def test_there_are_links() -> None:
    assert sum(len(links(path)) for path in documents()) > 20


def test_every_document_is_reached_from_the_readme() -> None:
    seen, left = set(), [ROOT / "README.md"]
    while left:
        path = left.pop()
        if path in seen or path.suffix != ".md" or not path.exists():
            continue
        seen.add(path)
        left += [(path.parent / link.partition("#")[0]).resolve() for link in links(path)]
    in_docs = {path for path in documents() if path.is_relative_to(ROOT / "docs")}
    assert in_docs - seen == set()
