/* Functions that few programs use: IPC, batches of value operations, checkpointing, graph details.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "graph.h"

int sim_cuEventRecord(struct event *event, void *handle);
int sim_cuStreamWaitEvent(void *handle, struct event *event, u32 flags);
int sim_cuModuleGetGlobal_v2(u64 *pointer, size_t *bytes, void *module, const char *name);

static int mark(void *handle)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result || sim->config.instant)
		return result;
	if (capture_takes(stream, NODE_BATCH_MEM_OP, 0, &result))
		return result;
	return queue_submit(stream, ITEM_MARK, 0, NULL);
}

int sim_cuStreamBatchMemOp(void *stream, u32 count, void *operations, u32 flags)
{
	(void)flags;
	return count && operations ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuStreamBatchMemOp_v2(void *stream, u32 count, void *operations, u32 flags)
{
	return sim_cuStreamBatchMemOp(stream, count, operations, flags);
}

int sim_cuSignalExternalSemaphoresAsync(void *semaphores, void *parameters, u32 count, void *stream)
{
	(void)parameters;
	return semaphores && count ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuWaitExternalSemaphoresAsync(void *semaphores, void *parameters, u32 count, void *stream)
{
	return sim_cuSignalExternalSemaphoresAsync(semaphores, parameters, count, stream);
}

int sim_cuMemPrefetchBatchAsync(void *pointers, size_t *sizes, size_t count, void *places,
				void *indices, size_t place_count, u64 flags, void *stream)
{
	(void)sizes, (void)places, (void)indices, (void)place_count, (void)flags;
	return pointers && count ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemDiscardAndPrefetchBatchAsync(void *pointers, size_t *sizes, size_t count, void *places,
					  void *indices, size_t place_count, u64 flags,
					  void *stream)
{
	return sim_cuMemPrefetchBatchAsync(pointers, sizes, count, places, indices, place_count,
					   flags, stream);
}

int sim_cuMemDiscardBatchAsync(void *pointers, size_t *sizes, size_t count, u64 flags, void *stream)
{
	(void)sizes, (void)flags;
	return pointers && count ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemBatchDecompressAsync(void *parameters, size_t count, u32 flags, size_t *failed,
				  void *stream)
{
	(void)flags, (void)failed;
	return parameters && count ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuMemMapArrayAsync(void *list, u32 count, void *stream)
{
	return list && count ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuGraphicsMapResources(u32 count, void *resources, void *stream)
{
	return resources && count ? mark(stream) : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuGraphicsUnmapResources(u32 count, void *resources, void *stream)
{
	return sim_cuGraphicsMapResources(count, resources, stream);
}

struct ipc_handle {
	u64 bytes;
	u64 unused[7];
};

int sim_cuIpcGetMemHandle(struct ipc_handle *handle, u64 pointer)
{
	u64 start = 0;

	memset(handle, 0, sizeof(*handle));
	handle->bytes = memory_size(pointer, &start);
	return handle->bytes && start == pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Memory of another process: an address here, but not requested by this process. */
int sim_cuIpcOpenMemHandle_v2(u64 *pointer, struct ipc_handle handle, u32 flags)
{
	void *space;

	(void)flags;
	if (!pointer || !handle.bytes || !context_current())
		return CUDA_ERROR_INVALID_VALUE;
	space = mmap(NULL, handle.bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*pointer = (u64)space;
	return space == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

int sim_cuIpcOpenMemHandle(u64 *pointer, struct ipc_handle handle, u32 flags)
{
	return sim_cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

int sim_cuIpcCloseMemHandle(u64 pointer)
{
	return pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; /* the address stays reserved */
}

int sim_cuModuleGetGlobal(u32 *pointer, u32 *bytes, void *module, const char *name)
{
	u64 wide;
	size_t size;
	int result = sim_cuModuleGetGlobal_v2(&wide, &size, module, name);

	if (!result && pointer)
		*pointer = (u32)wide;
	if (!result && bytes)
		*bytes = (u32)size;
	return result;
}

int sim_cuCtxRecordEvent(void *handle, struct event *event)
{
	struct context *context = handle ? context_check(handle) : context_current();

	return context ? sim_cuEventRecord(event, &context->legacy) : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuCtxWaitEvent(void *handle, struct event *event)
{
	struct context *context = handle ? context_check(handle) : context_current();

	return context ? sim_cuStreamWaitEvent(&context->legacy, event, 0)
		       : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuGreenCtxRecordEvent(struct green *green, struct event *event)
{
	return object_is(green, MAGIC_GREEN) ? sim_cuEventRecord(event, &green->context->legacy)
					     : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuGreenCtxWaitEvent(struct green *green, struct event *event)
{
	return object_is(green, MAGIC_GREEN)
		       ? sim_cuStreamWaitEvent(&green->context->legacy, event, 0)
		       : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuGraphGetRootNodes(struct graph *graph, void **nodes, size_t *count)
{
	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	if (nodes && *count && graph->first)
		nodes[0] = graph->first;
	*count = graph->first != NULL;
	return CUDA_SUCCESS;
}

int sim_cuGraphExecGetFlags(void *exec, u64 *flags)
{
	*flags = 0;
	return object_is(exec, MAGIC_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The duration of a launch inside an executable is not changed: its nodes are a copy. */
int sim_cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const void *given)
{
	return object_is(exec, MAGIC_EXEC) && object_is(node, MAGIC_NODE) && given
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

int sim_cuGraphExecKernelNodeSetParams(void *exec, void *node, const void *given)
{
	return sim_cuGraphExecKernelNodeSetParams_v2(exec, node, given);
}

/* cuda-checkpoint's calls: seen by whoever traces them, they change nothing here. */
#define CHECKPOINT(name)                                                                           \
	int sim_cuCheckpointProcess##name(int pid, void *arguments)                                \
	{                                                                                          \
		(void)arguments;                                                                   \
		return pid > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;                          \
	}

CHECKPOINT(Lock)
CHECKPOINT(Checkpoint)
CHECKPOINT(Restore)
CHECKPOINT(Unlock)

int sim_cuCheckpointProcessGetState(int pid, u32 *state)
{
	*state = 0; /* CU_PROCESS_STATE_RUNNING */
	return pid > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
