/* Contexts: created ones, primary ones with reference counts, and each thread's stack of them. */
#include <string.h>

#include "sim.h"

static struct context *contexts;
static struct context *primary[SIM_DEVICES];
static u32 primary_flags[SIM_DEVICES];
static u64 next_id;

void context_reset_all(void)
{
	contexts = NULL;
	memset(primary, 0, sizeof(primary));
}

struct context *context_current(void)
{
	struct context *context;

	thread_id();
	if (!sim_thread.depth)
		return NULL;
	context = sim_thread.stack[sim_thread.depth - 1];
	return context && context->object.magic == MAGIC_CONTEXT ? context : NULL;
}

/* A handle that the caller passes: a context, or the view of a green one. */
struct context *context_check(void *handle)
{
	return object_is(handle, MAGIC_CONTEXT) ? handle : NULL;
}

static int channel_acquire(struct context *context)
{
	struct sim_row *row = process_row(context->device);
	u32 number;

	state_lock();
	device_advance_all(now_ns());
	for (number = 0; number < SIM_CHANNELS; number++) {
		struct sim_channel *channel = &sim->channels[number];

		if (channel->used || state_channel_lock(number))
			continue;
		memset(channel, 0, sizeof(*channel));
		channel->device = context->device;
		channel->row = (u64)(row - sim->rows);
		channel->head = channel->tail = 1;
		channel->used = 1;
		row->contexts++;
		if (sim->header.channel_top <= number)
			sim->header.channel_top = number + 1;
		context->channel = number;
		state_unlock();
		return CUDA_SUCCESS;
	}
	state_unlock();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void channel_release(struct context *context)
{
	state_lock();
	device_advance_all(now_ns());
	channel_drop(context->channel);
	state_channel_unlock(context->channel);
	state_unlock();
}

static int context_new(int ordinal, u32 flags, struct context **out)
{
	int device = visible_device(ordinal), result;
	struct context *context;

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	context = object_new(MAGIC_CONTEXT, sizeof(*context));
	context->device = (u32)device;
	context->ordinal = (u32)ordinal;
	context->flags = flags;
	stream_init(&context->legacy, context, 0);
	result = channel_acquire(context);
	if (!result) {
		result = memory_charge(context, sim->config.context_bytes);
		if (result)
			channel_release(context);
	}
	if (result) {
		object_free(context);
		return result;
	}
	context->id = ADD(next_id, 1) + 1;
	process_lock();
	context->next = contexts;
	contexts = context;
	process_unlock();
	*out = context;
	return CUDA_SUCCESS;
}

static void context_end(struct context *context)
{
	struct context **link;
	struct stream *stream;

	queue_wait_scope(context->channel, context->last, SCOPE_LEGACY);
	memory_drop(context);
	channel_release(context);
	process_lock();
	for (link = &contexts; *link && *link != context; link = &(*link)->next)
		;
	if (*link)
		*link = context->next;
	for (stream = context->streams; stream; stream = stream->next)
		stream->object.magic = MAGIC_FREE;
	process_unlock();
	object_free(context);
}

/* The context that a call naming a device works on: the primary one, if it exists. */
int context_of_device(int ordinal, struct context **context)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*context = primary[device];
	return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

int sim_cuCtxCreate_v2(struct context **out, u32 flags, int ordinal)
{
	int result = out ? context_new(ordinal, flags, out) : CUDA_ERROR_INVALID_VALUE;

	if (!result && sim_thread.depth < SIM_STACK)
		sim_thread.stack[sim_thread.depth++] = *out;
	return result;
}

int sim_cuCtxCreate(struct context **out, u32 flags, int ordinal)
{
	return sim_cuCtxCreate_v2(out, flags, ordinal);
}

int sim_cuCtxCreate_v3(struct context **out, void *affinity, int count, u32 flags, int ordinal)
{
	(void)affinity;
	(void)count;
	return sim_cuCtxCreate_v2(out, flags, ordinal);
}

int sim_cuCtxCreate_v4(struct context **out, void *parameters, u32 flags, int ordinal)
{
	(void)parameters;
	return sim_cuCtxCreate_v2(out, flags, ordinal);
}

int sim_cuCtxDestroy_v2(void *handle)
{
	struct context *context = context_check(handle);

	if (!context || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_thread.depth && sim_thread.stack[sim_thread.depth - 1] == context)
		sim_thread.depth--;
	context_end(context);
	return CUDA_SUCCESS;
}

int sim_cuCtxDestroy(void *handle)
{
	return sim_cuCtxDestroy_v2(handle);
}

int sim_cuCtxSetCurrent(void *handle)
{
	thread_id();
	if (!handle) {
		sim_thread.depth -= sim_thread.depth != 0;
		return CUDA_SUCCESS;
	}
	if (!context_check(handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim_thread.depth)
		sim_thread.depth = 1;
	sim_thread.stack[sim_thread.depth - 1] = handle;
	return CUDA_SUCCESS;
}

int sim_cuCtxPushCurrent_v2(void *handle)
{
	if (!context_check(handle) || sim_thread.depth == SIM_STACK)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_thread.stack[sim_thread.depth++] = handle;
	return CUDA_SUCCESS;
}

int sim_cuCtxPushCurrent(void *handle)
{
	return sim_cuCtxPushCurrent_v2(handle);
}

int sim_cuCtxPopCurrent_v2(void **out)
{
	if (!sim_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_thread.depth--;
	if (out)
		*out = sim_thread.stack[sim_thread.depth];
	return CUDA_SUCCESS;
}

int sim_cuCtxPopCurrent(void **out)
{
	return sim_cuCtxPopCurrent_v2(out);
}

int sim_cuCtxGetCurrent(void **out)
{
	*out = context_current();
	return CUDA_SUCCESS;
}

int sim_cuCtxGetDevice(int *out)
{
	struct context *context = context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = (int)context->ordinal;
	return CUDA_SUCCESS;
}

int sim_cuCtxGetDevice_v2(int *out, void *handle)
{
	struct context *context = handle ? context_check(handle) : context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out = (int)context->ordinal;
	return CUDA_SUCCESS;
}

int sim_cuCtxGetFlags(u32 *flags)
{
	struct context *context = context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

int sim_cuCtxGetId(void *handle, u64 *id)
{
	struct context *context = handle ? context_check(handle) : context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = context->id;
	return CUDA_SUCCESS;
}

int sim_cuCtxGetApiVersion(void *handle, u32 *version)
{
	(void)handle;
	*version = 3020;
	return CUDA_SUCCESS;
}

static int synchronize(struct context *context)
{
	u64 begin = now_ns();
	int result;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim->config.instant)
		return CUDA_SUCCESS;
	result = capture_forbids(NULL);
	if (result)
		return result;
	queue_wait_scope(context->channel, context->last, SCOPE_LEGACY);
	ADD(process_row(context->device)->blocked_synchronize_ns, now_ns() - begin);
	return CUDA_SUCCESS;
}

int sim_cuCtxSynchronize(void)
{
	return synchronize(context_current());
}

int sim_cuCtxSynchronize_v2(void *handle)
{
	return synchronize(handle ? context_check(handle) : context_current());
}

int sim_cuDevicePrimaryCtxRetain(struct context **out, int ordinal)
{
	int device = visible_device(ordinal), result = CUDA_SUCCESS;

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	process_lock();
	if (!primary[device]) {
		result = context_new(ordinal, primary_flags[device], &primary[device]);
		if (!result)
			primary[device]->primary = true;
	}
	if (!result) {
		primary[device]->references++;
		*out = primary[device];
	}
	process_unlock();
	return result;
}

static int primary_end(int ordinal, bool whatever)
{
	int device = visible_device(ordinal);
	struct context *context;

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	context = primary[device];
	if (!context)
		return whatever ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
	if (!whatever && --context->references)
		return CUDA_SUCCESS;
	primary[device] = NULL;
	context_end(context);
	return CUDA_SUCCESS;
}

int sim_cuDevicePrimaryCtxRelease_v2(int ordinal)
{
	return primary_end(ordinal, false);
}

int sim_cuDevicePrimaryCtxRelease(int ordinal)
{
	return primary_end(ordinal, false);
}

int sim_cuDevicePrimaryCtxReset_v2(int ordinal)
{
	return primary_end(ordinal, true);
}

int sim_cuDevicePrimaryCtxReset(int ordinal)
{
	return primary_end(ordinal, true);
}

int sim_cuDevicePrimaryCtxGetState(int ordinal, u32 *flags, int *active)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = primary_flags[device];
	*active = primary[device] != NULL;
	return CUDA_SUCCESS;
}

int sim_cuDevicePrimaryCtxSetFlags_v2(int ordinal, u32 flags)
{
	int device = visible_device(ordinal);

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	primary_flags[device] = flags;
	return CUDA_SUCCESS;
}

int sim_cuDevicePrimaryCtxSetFlags(int ordinal, u32 flags)
{
	return sim_cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}
