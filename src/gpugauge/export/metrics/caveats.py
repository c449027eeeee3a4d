"""What several metrics say under `wrong_when`."""

SEEN = (
    "A process that ran before the probes were there is counted from then on only; "
    "`gpugauge_agent_incomplete_processes` tells how many there are."
)

NEVER = "No case is known."
