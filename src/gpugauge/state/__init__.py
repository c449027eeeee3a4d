"""From rows to snapshots: per process, per owner, never going back."""
