"""What to say where the API server refuses the user something."""

from __future__ import annotations

import re

from gpugauge.errors import UnavailableError

DOCUMENT = "docs/kubectl.md"
_REFUSAL = re.compile(
    r'cannot ([a-z]{1,20}) resource "([a-z./-]{1,100})"'
    r'(?:.*in the namespace "([a-z0-9.-]{1,253})")?'
)


class MissingRight(UnavailableError):
    """The API server refuses the user something."""


def missing(text: str) -> MissingRight:
    """Return what a refusal means: which right is missing, and what grants it.

    The API server words it as `User "a" cannot list resource "pods" in API group "" in the
    namespace "b"`, or `at the cluster scope`.
    """
    found = _REFUSAL.search(text)
    if found is None:
        return MissingRight(f"The API server forbids it: {text}.", f"{DOCUMENT} lists the rights.")
    verb, resource, namespace = found.groups()
    if namespace:
        where, kind = f" in the namespace {namespace}", f"Role in {namespace}"
    else:
        where, kind = (" in all namespaces" if resource == "pods" else ""), "ClusterRole"
    hint = ", or name the agents' namespace with --agent-namespace" if "all" in where else ""
    return MissingRight(
        f"You may not {verb} {resource}{where}.",
        f"It takes a {kind} with `{verb}` on {resource} ({DOCUMENT}){hint}.",
    )
