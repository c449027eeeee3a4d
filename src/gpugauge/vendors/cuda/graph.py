"""Graphs: what tells how many launches one graph launch stands for.

Every builder of a node has the graph as argument 2 (`pointer_arg`). A graph
made or replaced by a call has its address at argument 1.
"""

from __future__ import annotations

from dataclasses import replace

from gpugauge.model.abi import Action, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, ptsz, under


def _graph(symbol: str, action: Action, pointer_arg: int = 1) -> Function:
    return Function(symbol=symbol, slot=Slot.OTHER, action=action, pointer_arg=pointer_arg)


def _typed_node(symbol: str, parameters_arg: int) -> Function:
    """Return a builder whose CUgraphNodeParams, at `size_arg`, says the type of the node."""
    return replace(_graph(symbol, Action.GRAPH_ADD_NODE, 2), size_arg=parameters_arg)


GRAPH: Rows = (
    _graph("cuGraphCreate", Action.GRAPH_CREATE),
    *under(_graph("cuGraphAddKernelNode_v2", Action.GRAPH_ADD_LAUNCH, 2), "cuGraphAddKernelNode"),
    # (*node, graph, dependencies, n, parameters); edges came before n in _v2.
    _typed_node("cuGraphAddNode", 5),
    _typed_node("cuGraphAddNode_v2", 6),
    _typed_node("cuGraphAddNode_v3", 6),
    # (*node, graph, dependencies, n, child)
    _graph("cuGraphAddChildGraphNode", Action.GRAPH_ADD_CHILD, 2),
    *under(
        _graph("cuGraphAddMemcpyNode", Action.GRAPH_ADD_OTHER, 2),
        "cuGraphAddMemsetNode",
        "cuGraphAddHostNode",
        "cuGraphAddEmptyNode",
        "cuGraphAddEventRecordNode",
        "cuGraphAddEventWaitNode",
        "cuGraphAddExternalSemaphoresSignalNode",
        "cuGraphAddExternalSemaphoresWaitNode",
        "cuGraphAddBatchMemOpNode",
        "cuGraphAddMemAllocNode",
        "cuGraphAddMemFreeNode",
    ),
    # (*clone, graph)
    _graph("cuGraphClone", Action.GRAPH_CLONE),
    # (*executable, graph, ...), all names.
    *under(
        _graph("cuGraphInstantiateWithFlags", Action.GRAPH_INSTANTIATE),
        "cuGraphInstantiate",
        "cuGraphInstantiate_v2",
    ),
    *under(
        _graph("cuGraphInstantiateWithParams", Action.GRAPH_INSTANTIATE),
        "cuGraphInstantiateWithParams_ptsz",
    ),
    _graph("cuGraphDestroy", Action.GRAPH_DESTROY),
    _graph("cuGraphExecDestroy", Action.GRAPH_EXEC_DESTROY),
    _graph("cuGraphDestroyNode", Action.GRAPH_NODE_DESTROY),
    # The nodes of an executable are kept by an update (its graph must be alike).
    *under(_graph("cuGraphExecUpdate_v2", Action.NONE), "cuGraphExecUpdate"),
)

# Copies the executable to the device, ordered by the stream.
GRAPH_UPLOAD: Rows = ptsz(
    Function(
        symbol="cuGraphUpload",
        slot=Slot.SUBMIT_OTHER,
        pointer_arg=1,
        stream_arg=2,
        submits=True,
    )
)
