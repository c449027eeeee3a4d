/* Nodes added to a graph by hand, in every form of the call. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "graph.h"

struct node *graph_add_child(struct graph *graph, const struct graph *child);

struct kernel_parameters { /* CUDA_KERNEL_NODE_PARAMS_v2, whose head is v1 */
	struct function *function;
	u32 grid[3];
	u32 block[3];
	u32 shared_bytes;
	void **parameters;
	void **extra;
	struct function *kernel; /* v2, when function is NULL */
};

struct node_parameters { /* CUgraphNodeParams */
	u32 type;
	u32 reserved[3];
	union {
		struct kernel_parameters kernel;
		struct graph *child;
		struct {
			void (*function)(void *);
			void *data;
		} host;
	};
};

static int finish(struct node *node, void **out)
{
	if (out)
		*out = node;
	return CUDA_SUCCESS;
}

static int set_kernel(struct node *node, const struct kernel_parameters *given)
{
	struct function *function = given->function ? given->function : given->kernel;

	if (!object_is(function, MAGIC_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (function->from_argument && given->parameters && given->parameters[0])
		node->duration_ns = *(const u64 *)given->parameters[0];
	else
		node->duration_ns = function->known ? function->duration_ns : sim->config.launch_ns;
	return CUDA_SUCCESS;
}

int sim_cuGraphAddKernelNode_v2(void **out, struct graph *graph, void **needs, size_t count,
				const struct kernel_parameters *given)
{
	struct node probe = {0};
	int result;

	(void)needs, (void)count;
	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	result = set_kernel(&probe, given);
	if (result)
		return result;
	return finish(graph_record(graph, NODE_KERNEL, probe.duration_ns), out);
}

int sim_cuGraphAddKernelNode(void **out, struct graph *graph, void **needs, size_t count,
			     const struct kernel_parameters *given)
{
	struct kernel_parameters head = *given;

	head.kernel = NULL;
	return sim_cuGraphAddKernelNode_v2(out, graph, needs, count, &head);
}

int sim_cuGraphKernelNodeSetParams_v2(struct node *node, const struct kernel_parameters *given)
{
	return object_is(node, MAGIC_NODE) ? set_kernel(node, given) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuGraphKernelNodeSetParams(struct node *node, const struct kernel_parameters *given)
{
	return sim_cuGraphKernelNodeSetParams_v2(node, given);
}

static int add(void **out, struct graph *graph, u32 type, u64 duration_ns)
{
	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	return finish(graph_record(graph, type, duration_ns), out);
}

#define ADDS(name, type, duration_ns)                                                              \
	int sim_cuGraphAdd##name##Node(void **out, struct graph *graph, void **needs,              \
				       size_t count)                                               \
	{                                                                                          \
		(void)needs, (void)count;                                                          \
		return add(out, graph, type, duration_ns);                                         \
	}

ADDS(Memcpy, NODE_MEMCPY, sim->config.copy_latency_ns)
ADDS(Memset, NODE_MEMSET, sim->config.copy_latency_ns)
ADDS(Empty, NODE_EMPTY, 0)
ADDS(EventRecord, NODE_EVENT_RECORD, 0)
ADDS(EventWait, NODE_WAIT_EVENT, 0)
ADDS(BatchMemOp, NODE_BATCH_MEM_OP, 0)
ADDS(ExternalSemaphoresSignal, NODE_SEMAPHORE_SIGNAL, 0)
ADDS(ExternalSemaphoresWait, NODE_SEMAPHORE_WAIT, 0)
ADDS(MemFree, NODE_MEM_FREE, 0)

/* The node's memory is an address only: it is not requested by a call of its own. */
int sim_cuGraphAddMemAllocNode(void **out, struct graph *graph, void **needs, size_t count,
			       unsigned char *given)
{
	const size_t bytes_at = 104, pointer_at = 112; /* CUDA_MEM_ALLOC_NODE_PARAMS */
	size_t bytes = *(const size_t *)(given + bytes_at);
	void *space;

	(void)needs, (void)count;
	space = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(void **)(given + pointer_at) = space;
	return add(out, graph, NODE_MEM_ALLOC, 0);
}

int sim_cuGraphAddHostNode(void **out, struct graph *graph, void **needs, size_t count,
			   const struct node_parameters *given)
{
	struct {
		void (*function)(void *);
		void *data;
	} const *host = (const void *)given;
	void *node;
	int result = add(&node, graph, NODE_HOST, 0);

	(void)needs, (void)count;
	if (result)
		return result;
	((struct node *)node)->function = host->function;
	((struct node *)node)->data = host->data;
	return finish(node, out);
}

int sim_cuGraphAddChildGraphNode(void **out, struct graph *graph, void **needs, size_t count,
				 void *child)
{
	(void)needs, (void)count;
	if (!object_is(graph, MAGIC_GRAPH) || !object_is(child, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	return finish(graph_add_child(graph, child), out);
}

int sim_cuGraphAddNode(void **out, struct graph *graph, void **needs, size_t count,
		       const struct node_parameters *given)
{
	switch (given->type) {
	case NODE_KERNEL:
		return sim_cuGraphAddKernelNode_v2(out, graph, needs, count, &given->kernel);
	case NODE_GRAPH:
		return sim_cuGraphAddChildGraphNode(out, graph, needs, count, given->child);
	case NODE_HOST:
		return sim_cuGraphAddHostNode(out, graph, needs, count, (const void *)&given->host);
	case NODE_MEMCPY:
	case NODE_MEMSET:
		return add(out, graph, given->type, sim->config.copy_latency_ns);
	case NODE_CONDITIONAL:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return add(out, graph, given->type, 0);
	}
}

int sim_cuGraphAddNode_v2(void **out, struct graph *graph, void **needs, const void *edges,
			  size_t count, const struct node_parameters *given)
{
	(void)edges;
	return sim_cuGraphAddNode(out, graph, needs, count, given);
}

int sim_cuGraphNodeSetEnabled(struct exec *exec, struct node *node, u32 enabled)
{
	if (!object_is(exec, MAGIC_EXEC) || !object_is(node, MAGIC_NODE))
		return CUDA_ERROR_INVALID_VALUE;
	(void)enabled;
	return CUDA_ERROR_NOT_SUPPORTED; /* an executable keeps its own copy of the nodes */
}
