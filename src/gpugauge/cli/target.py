"""Which agents a command asks: the one of this host, one by its URL, or those of a cluster.

`kubectl gpugauge` is about the cluster, `gpugauge` about this host; --context and --kubeconfig
make it the cluster's too.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from gpugauge import settings
from gpugauge.cli import program
from gpugauge.errors import SettingError, UnavailableError
from gpugauge.export.access import read_token
from gpugauge.remote.agents import AgentPod, find
from gpugauge.remote.cluster import NAME, checked, node_of, nodes_of
from gpugauge.remote.kubectl import Kubectl
from gpugauge.remote.link import DirectLink, Link, PodLink
from gpugauge.settings import Settings

INSTALL = "Install the chart there, or name the agents' namespace with --agent-namespace."

SETTINGS = ("listen_port", "listen_bearer_token_file")
"""Keys of the settings that tell how an agent is reached."""


@dataclass(frozen=True, slots=True)
class Target:
    """The agents to ask, and of what they say what is wanted."""

    links: tuple[Link, ...]
    namespace: str = ""
    """Only this one; "" for all."""
    pod: str = ""
    """Only this one of the namespace; "" for all."""
    several_nodes: bool = False
    """The cluster has more than one node with an agent, and not one of them was named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how the cluster and its agents are found, in kubectl's own words, and settings."""
    group = parser.add_argument_group("cluster", "as kubectl has them; docs/kubectl.md tells more")
    group.add_argument("--kubeconfig", default="", metavar="FILE", help="as kubectl's")
    group.add_argument("--context", default="", metavar="NAME", help="as kubectl's")
    group.add_argument("-n", "--namespace", default="", metavar="NS", help="as kubectl's")
    group.add_argument("--agent-namespace", default="", metavar="NS", help="where the agents run")
    group.add_argument("--agent", default="", metavar="URL", help="ask this agent alone")
    # Those of the agent itself mean nothing to who asks agents elsewhere.
    settings.add_flags(parser, only=SETTINGS if program.is_plugin() else ())


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add which agents are asked."""
    parser.add_argument("--pod", default="", metavar="NS/NAME", help="only this pod, on its node")
    parser.add_argument("--node", default="", metavar="NAME", help="only this node")


def is_cluster(arguments: argparse.Namespace) -> bool:
    """Tell whether a command is about a cluster, and not about this host."""
    return not arguments.agent and (
        program.is_plugin() or bool(arguments.kubeconfig or arguments.context)
    )


def kubectl_of(arguments: argparse.Namespace) -> Kubectl:
    """Return the kubectl that a command names."""
    return Kubectl(arguments.kubeconfig, arguments.context)


def target(arguments: argparse.Namespace, given: Settings, *, every: bool = False) -> Target:
    """Return whom to ask.

    Args:
        arguments: With `add_arguments` and `add_place`.
        given: Has the bearer token, and this host's port.
        every: Without a namespace all are meant, and not the context's.

    Raises:
        SettingError: a name is none, or two that exclude each other were given.
        UnavailableError: the cluster cannot be asked, or has no such agent.
    """
    namespace, pod = _wanted(arguments)
    token = read_token(given.listen.bearer_token_file)
    if not is_cluster(arguments):
        if arguments.node:
            raise SettingError("--node is for a cluster.", "Use kubectl gpugauge, or --context.")
        url = arguments.agent.rstrip("/") or f"http://127.0.0.1:{given.listen.port}"
        return Target((DirectLink(url, token),), namespace, pod)
    kubectl = kubectl_of(arguments)
    everywhere = every or getattr(arguments, "all_namespaces", False)
    if not namespace and not everywhere:
        namespace = kubectl.namespace()
    node = arguments.node and checked(arguments.node, "node")
    if pod:
        node = node_of(kubectl, namespace, pod)
    agents = _agents(arguments, node)
    asked = frozenset(agents)
    if namespace and not node:
        # A namespace has pods on nodes without a GPU too, and no agent needs to be there.
        asked &= nodes_of(kubectl, namespace)
    links = tuple(PodLink(kubectl, one, token) for name, one in agents.items() if name in asked)
    return Target(links, namespace, pod, several_nodes=len(agents) > 1 and not node)


def link_of(arguments: argparse.Namespace, given: Settings, node: str) -> PodLink:
    """Return the way to the agent of one node.

    Raises:
        UnavailableError: the cluster cannot be asked, or no agent runs there.
    """
    agent = _agents(arguments, checked(node, "node"))[node]
    return PodLink(kubectl_of(arguments), agent, read_token(given.listen.bearer_token_file))


def pod_of(arguments: argparse.Namespace, text: str) -> tuple[str, str]:
    """Return namespace and name of `NAMESPACE/NAME`, or of `NAME` as kubectl reads it.

    Raises:
        SettingError: it is no pod's name, or two namespaces were given.
        UnavailableError: kubectl does not tell the context's namespace.
    """
    namespace, slash, name = text.rpartition("/")
    if slash and arguments.namespace not in ("", namespace):
        raise SettingError(f"{text[:64]!r} is not in -n {arguments.namespace}.", "Give one.")
    if not slash and NAME.fullmatch(name) and is_cluster(arguments):
        namespace = arguments.namespace or kubectl_of(arguments).namespace()
    if not NAME.fullmatch(namespace) or not NAME.fullmatch(name):
        raise SettingError(f"{text[:64]!r} is no pod.", "Name one as NAMESPACE/POD.")
    return namespace, name


def _agents(arguments: argparse.Namespace, node: str) -> dict[str, AgentPod]:
    where = arguments.agent_namespace and checked(arguments.agent_namespace, "namespace")
    agents = find(kubectl_of(arguments), node=node, namespace=where)
    if not agents:
        at = f" on the node {node}" if node else ""
        raise UnavailableError(f"No agent of gpugauge runs{at}.", INSTALL)
    return agents


def _wanted(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the namespace and the pod that were named; "" for none."""
    everywhere = getattr(arguments, "all_namespaces", False)
    if everywhere and (arguments.namespace or arguments.pod):
        raise SettingError("-A excludes -n and --pod.", "Give one of them.")
    if not arguments.pod:
        return arguments.namespace and checked(arguments.namespace, "namespace"), ""
    if arguments.node:
        raise SettingError("--pod and --node exclude each other.", "Give one of them.")
    return pod_of(arguments, arguments.pod)
