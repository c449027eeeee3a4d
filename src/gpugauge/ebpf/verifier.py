"""What Linux says when it refuses a BPF program."""

from __future__ import annotations

from gpugauge.errors import UnsupportedError

SHOWN_LINES = 12


def useful_lines(log: str, most: int = SHOWN_LINES) -> tuple[list[str], int]:
    """Return the last lines of a verifier log that tell why, and how many were left out.

    The statistics at the end and blank lines tell nothing.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    while lines and lines[-1].startswith(
        ("processed ", "verification time", "stack depth", "peak_states", "mark_precise")
    ):
        lines.pop()
    shown = lines[-most:]
    return shown, len(lines) - len(shown)


class VerifierError(UnsupportedError):
    """A program that Linux did not load.

    The text shows the last useful lines; `log` is the whole of what Linux said.
    """

    def __init__(self, program: str, reason: str, log: str) -> None:
        self.program = program
        self.log = log
        shown, omitted = useful_lines(log)
        text = f"Linux did not load the BPF program {program}: {reason}."
        if shown:
            more = f" ({omitted} lines before these omitted)" if omitted else ""
            text += f" The verifier said{more}:\n" + "\n".join(f"  {line}" for line in shown)
        super().__init__(text)
