"""Which agents a command asks: the one of this host, one by its URL, or those of a cluster.

`kubectl gpugauge` is about the cluster, `gpugauge` about this host; --context and --kubeconfig
make it the cluster's too.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from gpugauge.cli import program
from gpugauge.errors import SettingError, UnavailableError
from gpugauge.export.access import read_token
from gpugauge.remote.agents import AgentPod, find
from gpugauge.remote.cluster import checked, node_of, nodes_of
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
    missing: tuple[str, ...] = ()
    """Nodes that were asked for and have no agent."""
    several_nodes: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how the cluster and its agents are found, in kubectl's own words."""
    group = parser.add_argument_group("cluster", "as kubectl has them; docs/kubectl.md tells more")
    group.add_argument("--kubeconfig", default="", metavar="FILE", help="as kubectl's")
    group.add_argument("--context", default="", metavar="NAME", help="as kubectl's")
    group.add_argument("--agent-namespace", default="", metavar="NS", help="where the agents run")
    group.add_argument("--agent", default="", metavar="URL", help="ask this agent alone")


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Add whose figures are wanted."""
    parser.add_argument("-n", "--namespace", default="", metavar="NS", help="only this namespace")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    add_place(parser)


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
        arguments: With `add_arguments`, and with `add_scope` or `add_place`.
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
            raise SettingError(
                "--node is for a cluster.", "Use kubectl gpugauge, or give --context."
            )
        url = arguments.agent.rstrip("/") or f"http://127.0.0.1:{given.listen.port}"
        return Target((DirectLink(url, token),), namespace, pod)
    kubectl = kubectl_of(arguments)
    where = arguments.agent_namespace and checked(arguments.agent_namespace, "namespace")
    if not namespace and not (every or getattr(arguments, "all_namespaces", False)):
        namespace = kubectl.namespace()
    node = arguments.node and checked(arguments.node, "node")
    if pod:
        node = node_of(kubectl, namespace, pod)
    agents = find(kubectl, node=node, namespace=where)
    wanted = frozenset({node}) if node else frozenset(agents)
    if namespace and not node:
        wanted = nodes_of(kubectl, namespace)
        # A namespace has pods on nodes without a GPU too, and no agent needs to be there.
        wanted &= frozenset(agents)
    if not agents:
        at = f" on the node {node}" if node else ""
        raise UnavailableError(f"No agent of gpugauge runs{at}.", INSTALL)
    asked: list[AgentPod] = [agents[name] for name in sorted(wanted) if name in agents]
    links = tuple(PodLink(kubectl, agent, token) for agent in asked)
    return Target(links, namespace, pod, several_nodes=len(agents) > 1 and not node)


def link_of(arguments: argparse.Namespace, given: Settings, node: str) -> PodLink:
    """Return the way to the agent of one node.

    Raises:
        UnavailableError: the cluster cannot be asked, or no agent runs there.
    """
    kubectl = kubectl_of(arguments)
    where = arguments.agent_namespace and checked(arguments.agent_namespace, "namespace")
    agents = find(kubectl, node=node, namespace=where)
    if node not in agents:
        raise UnavailableError(f"No agent of gpugauge runs on the node {node}.", INSTALL)
    return PodLink(kubectl, agents[node], read_token(given.listen.bearer_token_file))


def _wanted(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return (namespace, pod)."""
    namespace = getattr(arguments, "namespace", "")
    everywhere = getattr(arguments, "all_namespaces", False)
    if bool(namespace) + everywhere + bool(arguments.pod) > 1:
        raise SettingError("-n, -A and --pod exclude each other.", "Give one of them.")
    if not arguments.pod:
        return namespace and checked(namespace, "namespace"), ""
    space, slash, name = arguments.pod.partition("/")
    if not slash or arguments.node:
        raise SettingError("--pod wants NAMESPACE/NAME, and no --node.", "Give --pod ml/train-0.")
    return checked(space, "namespace"), checked(name, "pod")
