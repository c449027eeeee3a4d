/* Green contexts: a share of the primary context, with a context handle of its own. */
#include <string.h>

#include "sim.h"

int sim_cuDevicePrimaryCtxRetain(struct context **out, int ordinal);
int sim_cuDevicePrimaryCtxRelease_v2(int ordinal);
int sim_cuEventRecord(struct event *event, void *handle);

struct resource { /* CUdevResource: 92 bytes inside, then what its type says */
	u32 type;
	u32 inside[23];
	u32 processors;
	u32 rest[11];
};

static u64 next_id;

int sim_cuDeviceGetDevResource(int ordinal, struct resource *resource, u32 type)
{
	if (visible_device(ordinal) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	memset(resource, 0, sizeof(*resource));
	resource->type = type;
	resource->processors = 132;
	return CUDA_SUCCESS;
}

/* One group is enough for tests: the asked size, and what is left. */
int sim_cuDevSmResourceSplitByCount(struct resource *groups, u32 *count, struct resource *input,
				    struct resource *rest, u32 flags, u32 least)
{
	u32 size = (least + 7) / 8 * 8;

	(void)flags;
	if (!count || !input || size > input->processors)
		return CUDA_ERROR_INVALID_VALUE;
	*count = 1;
	if (!groups)
		return CUDA_SUCCESS;
	groups[0] = *input;
	groups[0].processors = size;
	if (rest) {
		*rest = *input;
		rest->processors = input->processors - size;
	}
	return CUDA_SUCCESS;
}

int sim_cuDevResourceGenerateDesc(void **out, struct resource *resources, u32 count)
{
	static struct resource described;

	if (!out || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	described = resources[0];
	*out = &described;
	return CUDA_SUCCESS;
}

int sim_cuGreenCtxCreate(struct green **out, void *description, int ordinal, u32 flags)
{
	struct context *primary;
	struct green *green;
	int result;

	if (!out || !description || flags != 1) /* CU_GREEN_CTX_DEFAULT_STREAM */
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_cuDevicePrimaryCtxRetain(&primary, ordinal);
	if (result)
		return result;
	green = object_new(MAGIC_GREEN, sizeof(*green));
	green->context = primary;
	green->id = ADD(next_id, 1) + 1;
	*out = green;
	return CUDA_SUCCESS;
}

int sim_cuCtxFromGreenCtx(void **out, struct green *green)
{
	if (!object_is(green, MAGIC_GREEN))
		return CUDA_ERROR_INVALID_CONTEXT;
	process_lock();
	if (!green->view) {
		struct context *view = object_new(MAGIC_CONTEXT, sizeof(*view));

		view->device = green->context->device;
		view->ordinal = green->context->ordinal;
		view->channel = green->context->channel;
		view->primary = true; /* never destroyed by its handle */
		view->id = green->context->id;
		stream_init(&view->legacy, view, 0);
		green->view = view;
	}
	process_unlock();
	*out = green->view;
	return CUDA_SUCCESS;
}

int sim_cuGreenCtxDestroy(struct green *green)
{
	if (!object_is(green, MAGIC_GREEN))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (green->view) {
		memory_drop(green->view);
		object_free(green->view);
	}
	sim_cuDevicePrimaryCtxRelease_v2((int)green->context->ordinal);
	object_free(green);
	return CUDA_SUCCESS;
}

int sim_cuGreenCtxGetDevResource(struct green *green, struct resource *resource, u32 type)
{
	if (!object_is(green, MAGIC_GREEN))
		return CUDA_ERROR_INVALID_CONTEXT;
	return sim_cuDeviceGetDevResource((int)green->context->ordinal, resource, type);
}

int sim_cuGreenCtxGetId(struct green *green, u64 *id)
{
	if (!object_is(green, MAGIC_GREEN))
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = green->id;
	return CUDA_SUCCESS;
}
