"""Errors that a user can meet.

GpugaugeError                 exit code
├── SettingError              2   a flag, a settings file or an argument is off
├── UnsupportedError          3   this Linux, or these privileges, cannot do it
├── UnavailableError          4   something outside is missing: a driver, a port, a file, a server
└── ForeignDataError          4   foreign bytes that could not be parsed within their bounds

Each carries one sentence and the next step. Exit code 0 is success, 1 is
"looked, and found something" (check, diagnose), 70 is a fault of gpugauge's own.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FOUND = 1
EXIT_SETTING = 2
EXIT_UNSUPPORTED = 3
EXIT_UNAVAILABLE = 4
EXIT_INTERNAL = 70


class GpugaugeError(Exception):
    """The root: a sentence, the next step, and the exit code of the command that meets it."""

    exit_code = EXIT_INTERNAL

    def __init__(self, sentence: str, next_step: str = "") -> None:
        super().__init__(f"{sentence} {next_step}".strip())
        self.sentence = sentence
        self.next_step = next_step


class SettingError(GpugaugeError):
    """A flag, a settings file or an argument is off."""

    exit_code = EXIT_SETTING


class UnsupportedError(GpugaugeError):
    """This Linux, or these privileges, cannot do it."""

    exit_code = EXIT_UNSUPPORTED


class UnavailableError(GpugaugeError):
    """Something outside is missing or does not answer."""

    exit_code = EXIT_UNAVAILABLE


class ForeignDataError(GpugaugeError):
    """Foreign bytes that could not be parsed within their bounds."""

    exit_code = EXIT_UNAVAILABLE
