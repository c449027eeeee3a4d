"""A port of this host that leads to a port of a pod, by `kubectl port-forward`."""

from __future__ import annotations

import re
import subprocess
import threading

from gpugauge.errors import UnavailableError
from gpugauge.remote.kubectl import Kubectl, failure, not_started
from gpugauge.remote.rights import MissingRight

SECONDS = 15.0
END_SECONDS = 5.0
TELL_SECONDS = 0.2
"""The connection ends before kubectl has said why."""
KEPT_BYTES = 4_096
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]{1,5}) ")
_COMPLAINT = re.compile(rb'An error occurred forwarding" err="([^"]*)"')


class Forward:
    """One kubectl, from when it is made until it is closed."""

    def __init__(self, kubectl: Kubectl, namespace: str, pod: str, port: int) -> None:
        """Start it, and return at once.

        Raises:
            UnavailableError: kubectl is not there.
        """
        self._where = f"pod {namespace}/{pod}"
        self._namespace = namespace
        self._heard = threading.Event()
        self._port = 0
        self._said = bytearray()
        words = ("-n", namespace, "port-forward", "--address=127.0.0.1", f"pod/{pod}", f":{port}")
        try:
            self._child = subprocess.Popen(
                kubectl.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise not_started(error) from None
        # Read to the end: kubectl writes a line a connection, and stands still in a full pipe.
        self._reader = threading.Thread(target=self._read, name="port-forward", daemon=True)
        self._reader.start()

    def url(self, seconds: float = SECONDS) -> str:
        """Return where the port comes out; waits until it does.

        Raises:
            MissingRight: the user may not forward ports there.
            UnavailableError: kubectl did not forward within `seconds`, or has ended.
        """
        if not self._heard.wait(seconds):
            raise UnavailableError(f"kubectl did not reach {self._where} in {seconds:g} s")
        if self._child.poll() is None and self._port:
            return f"http://127.0.0.1:{self._port}"
        self._reader.join(END_SECONDS)
        error = failure(self._said.decode("utf-8", "replace"))
        if isinstance(error, MissingRight):
            raise error
        raise UnavailableError(f"no way to {self._where}: {error.sentence}") from None

    @property
    def complaint(self) -> str:
        """What kubectl said last of a connection that failed; "" for nothing."""
        self._reader.join(TELL_SECONDS)
        found = _COMPLAINT.findall(self._said)
        text = found[-1].decode("utf-8", "replace") if found else ""
        return "".join(c for c in text if c.isprintable())[:200]

    @property
    def alive(self) -> bool:
        """Whether the port still leads somewhere, as far as kubectl knows."""
        return self._child.poll() is None

    def close(self) -> None:
        """End this kubectl, and no other process."""
        self._child.terminate()
        try:
            self._child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join(END_SECONDS)

    def _read(self) -> None:
        stream = self._child.stdout
        assert stream is not None  # noqa: S101 - for the type checker
        with stream:
            while line := stream.readline(KEPT_BYTES):
                found = _FORWARDING.match(line)
                if found and not self._port:
                    self._port = int(found[1])
                    self._heard.set()
                self._said = (self._said + line)[-KEPT_BYTES:]
        self._heard.set()
