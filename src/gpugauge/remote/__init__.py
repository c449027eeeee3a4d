"""The agents of a cluster, found and reached with the rights of whoever asks.

`kubectl` finds the cluster (files, context, credentials, proxies) and forwards ports, so that
what works with it works here. An agent's API answers loopback only, unless it has a token; a
forwarded port comes out at the loopback of the agent's pod. The API server's own proxy would
not do: it takes the token for itself.
"""
