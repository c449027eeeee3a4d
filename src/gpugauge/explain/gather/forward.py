"""The agent of another node, reached as `kubectl port-forward` reaches pods.

The API server's own proxy would not do: the agent answers loopback only, unless it has a token,
and the proxy takes the token for itself.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpugauge.attribution.api_server import ApiServer
from gpugauge.errors import UnavailableError
from gpugauge.explain.gather.deadline import within

SECONDS = 15.0
END_SECONDS = 5.0
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]{1,5}) ")


@contextmanager
def agent_of(
    node: str, connect: Callable[[], ApiServer], port: int, kubeconfig: str = ""
) -> Iterator[str]:
    """Yield a URL under which the agent of a node answers.

    Raises:
        UnavailableError: no agent runs there, or kubectl does not lead to it.
    """
    from gpugauge.attribution.request_path_reader import RequestPathReader

    server = connect()
    try:
        agents = RequestPathReader(server).agents(node)
    finally:
        server.close()
    if not agents:
        raise UnavailableError(f"no agent is ready on {node}", "Install the chart there.")
    with forwarded(agents[0].namespace, agents[0].name, port, kubeconfig) as url:
        yield url


@contextmanager
def forwarded(namespace: str, pod: str, port: int, kubeconfig: str = "") -> Iterator[str]:
    """Yield a URL of this host that leads to a port of a pod.

    Raises:
        UnavailableError: kubectl is not there, or does not forward.
    """
    config = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    command = ["kubectl", *config, "-n", namespace, "port-forward", f"pod/{pod}", f":{port}"]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise UnavailableError(
            f"kubectl could not be started ({error.strerror})",
            "Put it on the PATH, or give --agent.",
        ) from None
    stream = child.stdout
    assert stream is not None  # noqa: S101 - for the type checker
    try:
        line = within(SECONDS, lambda: stream.readline(4_096))
        found = _FORWARDING.match(line)
        if found is None:
            raise UnavailableError(f"kubectl did not forward a port of pod {namespace}/{pod}")
        yield f"http://127.0.0.1:{int(found[1])}"
    finally:
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        stream.close()
