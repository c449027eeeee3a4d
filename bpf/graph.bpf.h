/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Graphs: how many launches one graph launch stands for. */
#ifndef GPUGAUGE_GRAPH_H
#define GPUGAUGE_GRAPH_H

#include "count.bpf.h"
#include "stream.bpf.h"

/* cuda.h: CUgraphNodeType, and where CUgraphNodeParams keeps a child graph */
#define NODE_TYPE_LAUNCH 0
#define NODE_TYPE_GRAPH 4
#define NODE_TYPE_CONDITIONAL 13
#define NODE_CHILD_OFFSET 16

INLINE void graph_add(struct process *process, __u64 handle, __u64 launches, bool unknown)
{
	struct graph *graph = graph_find(process->number, handle);

	if (!graph) {
		graph_put(process, handle, 0, true, false);
		return;
	}
	ADD(graph->launches, launches);
	if (unknown)
		graph->unknown = 1;
}

INLINE void graph_add_child(struct process *process, __u64 handle, __u64 child)
{
	struct graph *graph = graph_find(process->number, child);

	graph_add(process, handle, graph ? graph->launches : 0, !graph || graph->unknown);
}

INLINE void graph_add_typed(struct process *process, __u64 handle, __u64 params)
{
	__u32 type = NODE_TYPE_CONDITIONAL;
	__u64 child = 0;

	if (!read_user(&type, sizeof(type), params))
		lost(LOSS_RESULT_UNREADABLE);
	if (type == NODE_TYPE_LAUNCH)
		graph_add(process, handle, 1, false);
	else if (type == NODE_TYPE_GRAPH &&
		 read_user(&child, sizeof(child), params + NODE_CHILD_OFFSET))
		graph_add_child(process, handle, child);
	else if (type == NODE_TYPE_CONDITIONAL || type == NODE_TYPE_GRAPH)
		graph_add(process, handle, 0, true);
}

/* A clone, or an executable: the nodes of its origin. */
INLINE void graph_derive(struct process *process, struct thread *thread, bool executable)
{
	__u64 handle = result_handle(thread->open_pointer);
	struct graph *origin = graph_find(process->number, thread->open_second);
	bool unknown = !origin || origin->unknown || (process->flags & PROCESS_NODES_DESTROYED);

	graph_put(process, handle, origin ? origin->launches : 0, unknown, executable);
}

INLINE void graph_forget(struct process *process, __u64 handle)
{
	struct stream_key key = {.process_number = process->number, .handle = handle};

	if (!map_delete(&graphs, &key))
		refund(process, QUOTA_GRAPHS);
}

/* A graph was launched, or recorded into the graph being captured. */
INLINE void graph_launched(struct process *process, struct thread *thread, struct counts *counts,
			   struct capture *capture)
{
	struct graph *graph = graph_find(process->number, thread->open_pointer);
	bool unknown = !graph || graph->unknown;

	if (capture) {
		if (unknown)
			capture->unknown = 1;
		else
			ADD(capture->launches, graph->launches);
	} else if (counts) {
		if (unknown)
			counts->graph_launches_unknown += 1;
		else
			counts->graph_launch_nodes += graph->launches;
	}
}

#endif
