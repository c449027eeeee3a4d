"""Write docs/rules.md from the rules; `--check` compares it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from gpugauge.diagnosis.document import rules_document  # noqa: E402

OUTPUT = ROOT / "docs" / "rules.md"

if __name__ == "__main__":
    if "--check" not in sys.argv:
        OUTPUT.write_text(rules_document())
    elif not OUTPUT.exists() or OUTPUT.read_text() != rules_document():
        sys.exit("docs/rules.md is stale: run make generate")
