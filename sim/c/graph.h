/* Graphs, their nodes and executables. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim.h"

struct node {
	struct object object;
	struct graph *graph;
	struct node *next;
	u32 type;
	bool disabled;
	u64 duration_ns;
	struct graph *child;
	void (*function)(void *);
	void *data;
};

struct graph {
	struct object object;
	struct node *first;
	struct node **end;
	u64 count;
};

struct graph_total {
	u64 launches;
	u64 nodes;
	u64 duration_ns;
};

struct exec {
	struct object object;
	struct graph *graph; /* a copy, so that the graph may change or go */
	struct graph_total total;
};

#endif
