/* Graphs: built by capture or by hand, instantiated, launched as one item. */
#include "graph.h"

struct graph *graph_new(void)
{
	struct graph *graph = object_new(MAGIC_GRAPH, sizeof(*graph));

	graph->end = &graph->first;
	return graph;
}

struct node *graph_record(struct graph *graph, u32 type, u64 duration_ns)
{
	struct node *node = object_new(MAGIC_NODE, sizeof(*node));

	node->graph = graph;
	node->type = type;
	node->duration_ns = duration_ns;
	process_lock();
	*graph->end = node;
	graph->end = &node->next;
	graph->count++;
	process_unlock();
	return node;
}

void graph_record_host(struct graph *graph, void (*function)(void *), void *data)
{
	struct node *node = graph_record(graph, NODE_HOST, 0);

	node->function = function;
	node->data = data;
}

static struct graph *clone(const struct graph *graph)
{
	struct graph *copy = graph_new();
	const struct node *node;

	for (node = graph->first; node; node = node->next) {
		struct node *made = graph_record(copy, node->type, node->duration_ns);

		made->function = node->function;
		made->data = node->data;
		made->disabled = node->disabled;
		made->child = node->child ? clone(node->child) : NULL;
	}
	return copy;
}

static void destroy(struct graph *graph)
{
	struct node *node, *next;

	for (node = graph->first; node; node = next) {
		next = node->next;
		if (node->child)
			destroy(node->child);
		object_free(node);
	}
	object_free(graph);
}

static void total(const struct graph *graph, struct graph_total *sum)
{
	const struct node *node;

	for (node = graph->first; node; node = node->next) {
		if (node->disabled)
			continue;
		if (node->child) {
			total(node->child, sum);
			continue;
		}
		sum->nodes++;
		sum->launches += node->type == NODE_KERNEL;
		sum->duration_ns += node->duration_ns;
	}
}

/* Also called for children of what is captured and for nodes added by hand. */
struct node *graph_add_child(struct graph *graph, const struct graph *child)
{
	struct node *node = graph_record(graph, NODE_GRAPH, 0);

	node->child = clone(child);
	return node;
}

int sim_cuGraphCreate(void **out, u32 flags)
{
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = graph_new();
	return CUDA_SUCCESS;
}

int sim_cuGraphClone(void **out, void *graph)
{
	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	*out = clone(graph);
	return CUDA_SUCCESS;
}

int sim_cuGraphDestroy(void *graph)
{
	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	destroy(graph);
	return CUDA_SUCCESS;
}

int sim_cuGraphDestroyNode(struct node *node)
{
	struct node **link;

	if (!object_is(node, MAGIC_NODE))
		return CUDA_ERROR_INVALID_VALUE;
	process_lock();
	for (link = &node->graph->first; *link && *link != node; link = &(*link)->next)
		;
	if (*link) {
		*link = node->next;
		if (!*link)
			node->graph->end = link;
		node->graph->count--;
	}
	process_unlock();
	if (node->child)
		destroy(node->child);
	object_free(node);
	return CUDA_SUCCESS;
}

int sim_cuGraphGetNodes(struct graph *graph, void **nodes, size_t *count)
{
	struct node *node;
	size_t at = 0;

	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	for (node = graph->first; nodes && node && at < *count; node = node->next)
		nodes[at++] = node;
	*count = nodes ? at : graph->count;
	return CUDA_SUCCESS;
}

int sim_cuGraphNodeGetType(struct node *node, u32 *type)
{
	if (!object_is(node, MAGIC_NODE))
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

int sim_cuGraphChildGraphNodeGetGraph(struct node *node, void **out)
{
	if (!object_is(node, MAGIC_NODE) || !node->child)
		return CUDA_ERROR_INVALID_VALUE;
	*out = node->child;
	return CUDA_SUCCESS;
}

static int instantiate(struct exec **out, struct graph *graph)
{
	struct exec *exec;

	if (!object_is(graph, MAGIC_GRAPH) || !out)
		return CUDA_ERROR_INVALID_VALUE;
	exec = object_new(MAGIC_EXEC, sizeof(*exec));
	exec->graph = clone(graph);
	total(exec->graph, &exec->total);
	*out = exec;
	return CUDA_SUCCESS;
}

int sim_cuGraphInstantiate_v2(struct exec **out, void *graph, void **node, char *log, size_t bytes)
{
	(void)node, (void)log, (void)bytes;
	return instantiate(out, graph);
}

int sim_cuGraphInstantiate(struct exec **out, void *graph, void **node, char *log, size_t bytes)
{
	return sim_cuGraphInstantiate_v2(out, graph, node, log, bytes);
}

int sim_cuGraphInstantiateWithFlags(struct exec **out, void *graph, u64 flags)
{
	(void)flags;
	return instantiate(out, graph);
}

int sim_cuGraphInstantiateWithParams(struct exec **out, void *graph, void *parameters)
{
	(void)parameters;
	return instantiate(out, graph);
}

int sim_cuGraphExecDestroy(struct exec *exec)
{
	if (!object_is(exec, MAGIC_EXEC))
		return CUDA_ERROR_INVALID_VALUE;
	destroy(exec->graph);
	object_free(exec);
	return CUDA_SUCCESS;
}

static int update(struct exec *exec, struct graph *graph, int *answer)
{
	struct graph_total sum = {0, 0, 0};

	if (!object_is(exec, MAGIC_EXEC) || !object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	total(graph, &sum);
	*answer = sum.nodes == exec->total.nodes && sum.launches == exec->total.launches ? 0 : 2;
	if (*answer)
		return 910; /* CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: the topology changed */
	destroy(exec->graph);
	exec->graph = clone(graph);
	exec->total = sum;
	return CUDA_SUCCESS;
}

int sim_cuGraphExecUpdate_v2(struct exec *exec, void *graph, int *answer)
{
	return update(exec, graph, answer);
}

int sim_cuGraphExecUpdate(struct exec *exec, void *graph, void **node, int *answer)
{
	(void)node;
	return update(exec, graph, answer);
}

int sim_cuGraphUpload(struct exec *exec, void *stream)
{
	(void)stream;
	return object_is(exec, MAGIC_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Host nodes run after the rest: their order inside the graph is not modelled. */
static void run_hosts(const struct graph *graph, struct stream *stream)
{
	const struct node *node;

	for (node = graph->first; node; node = node->next) {
		if (node->child)
			run_hosts(node->child, stream);
		else if (node->type == NODE_HOST && node->function)
			callback_submit(stream, node->function, node->data);
	}
}

int sim_cuGraphLaunch(struct exec *exec, void *handle)
{
	struct stream *stream;
	struct sim_row *row;
	int result;

	if (!object_is(exec, MAGIC_EXEC))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_resolve(handle, &stream);
	if (result)
		return result;
	if (stream->capture) {
		graph_add_child(stream->capture->graph, exec->graph);
		return CUDA_SUCCESS;
	}
	if (!sim->config.instant) {
		issue_cost();
		result = queue_submit(stream, ITEM_LAUNCH,
				      exec->total.duration_ns +
					      exec->total.nodes * sim->config.graph_node_gap_ns,
				      NULL);
		if (result)
			return result;
		run_hosts(exec->graph, stream);
	}
	row = process_row(stream->context->device);
	ADD(row->graph_launches, 1);
	ADD(row->graph_nodes, exec->total.launches);
	return CUDA_SUCCESS;
}
