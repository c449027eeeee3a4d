"""A child process to probe: starts it, has it call, tells when it died."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from gpugauge.ebpf.proof_code import CALLER, Shape

DEADLINE_S = 10.0
_CHILD = Path(__file__).with_name("proof_child.py")


class TargetDiedError(Exception):
    """The child is gone or does not answer; the text says how."""


class ProofTarget:
    """A process that maps the proof's code from a descriptor and calls it on demand.

    Args:
        code_fd: A file that begins with the proof's code.
        strict: Run it under a seccomp filter that kills.

    Raises:
        TargetDiedError: It does not come up.
    """

    def __init__(self, code_fd: int, *, strict: bool = False) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(_CHILD),
                str(code_fd),
                str(CALLER),
                "strict" if strict else "plain",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            pass_fds=(code_fd,),
        )
        self.pid = self._process.pid
        try:
            if self._answer() != b"ready":
                raise TargetDiedError("it did not become ready")
        except BaseException:
            self.close()
            raise

    def call(self, shape: Shape, count: int) -> tuple[int, int]:
        """Have a function called; return (wrong answers, nanoseconds for all).

        Raises:
            TargetDiedError: It died, or did not answer in time.
        """
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        try:
            self._process.stdin.write(f"{shape.entry} {count}\n".encode())
        except BrokenPipeError:
            raise TargetDiedError(self._end()) from None
        try:
            wrong, took = (int(each) for each in self._answer().split())
        except ValueError:
            raise TargetDiedError("its answer made no sense") from None
        return wrong, took

    def cost_ns(self, shape: Shape, calls: int, rounds: int = 5) -> float:
        """Return nanoseconds a call takes: the least of some rounds, which noise only adds to.

        Raises:
            TargetDiedError: It died.
        """
        return min(self.call(shape, calls)[1] for _ in range(rounds)) / calls

    def close(self) -> None:
        """End the child."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> ProofTarget:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        descriptor = self._process.stdout.fileno()
        ready, _, _ = select.select([descriptor], [], [], DEADLINE_S)
        if not ready:
            raise TargetDiedError(f"it did not answer within {DEADLINE_S:.0f} s")
        line = os.read(descriptor, 64)
        if not line:
            raise TargetDiedError(self._end())
        return line.strip()

    def _end(self) -> str:
        code = self._process.wait(DEADLINE_S)
        if code < 0:
            return f"it was killed by {signal.Signals(-code).name}"
        return f"it ended with exit code {code}"
