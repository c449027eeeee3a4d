/* Streams: the legacy one, each thread's own, and created ones. */
#include "sim.h"

static u32 next_id;

void stream_init(struct stream *stream, struct context *context, u32 flags)
{
	stream->object.magic = MAGIC_STREAM;
	stream->object.size = sizeof(*stream);
	stream->context = context;
	stream->flags = flags;
	stream->id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
}

static struct stream *stream_new(struct context *context, u32 flags, int priority)
{
	struct stream *stream = object_new(MAGIC_STREAM, sizeof(*stream));

	stream_init(stream, context, flags);
	stream->priority = priority;
	process_lock();
	stream->next = context->streams;
	context->streams = stream;
	process_unlock();
	return stream;
}

static struct stream *per_thread(struct context *context)
{
	u64 owner = thread_id();
	struct stream *stream;

	process_lock();
	for (stream = context->streams; stream && stream->owner_thread != owner;
	     stream = stream->next)
		;
	process_unlock();
	if (!stream) {
		stream = stream_new(context, 0, 0);
		stream->owner_thread = owner;
	}
	return stream;
}

/* Handles 0, 1 and 2 name default streams of the current context. */
int stream_resolve(void *handle, struct stream **stream)
{
	struct context *context;

	if ((u64)handle > 2) {
		if (!object_is(handle, MAGIC_STREAM))
			return CUDA_ERROR_INVALID_HANDLE;
		*stream = handle;
		return CUDA_SUCCESS;
	}
	context = context_current();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if ((u64)handle == 2 || (!handle && sim_thread.per_thread_default))
		*stream = per_thread(context);
	else
		*stream = &context->legacy;
	return CUDA_SUCCESS;
}

int sim_cuStreamCreateWithPriority(void **out, u32 flags, int priority)
{
	struct context *context = context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*out = stream_new(context, flags, priority);
	return CUDA_SUCCESS;
}

int sim_cuStreamCreate(void **out, u32 flags)
{
	return sim_cuStreamCreateWithPriority(out, flags, 0);
}

int sim_cuGreenCtxStreamCreate(void **out, struct green *green, u32 flags, int priority)
{
	struct stream *stream;

	if (!object_is(green, MAGIC_GREEN))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	stream = stream_new(green->context, flags | 1, priority);
	stream->green = green;
	*out = stream;
	return CUDA_SUCCESS;
}

int sim_cuStreamGetGreenCtx(void *handle, void **out)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result)
		*out = stream->green;
	return result;
}

int sim_cuStreamDestroy_v2(void *handle)
{
	struct stream *stream = handle, **link;

	if (!object_is(handle, MAGIC_STREAM) || stream == &stream->context->legacy)
		return CUDA_ERROR_INVALID_HANDLE;
	process_lock();
	for (link = &stream->context->streams; *link && *link != stream; link = &(*link)->next)
		;
	if (*link)
		*link = stream->next;
	process_unlock();
	object_free(stream); /* what it had queued still runs */
	return CUDA_SUCCESS;
}

int sim_cuStreamDestroy(void *handle)
{
	return sim_cuStreamDestroy_v2(handle);
}

/* The item whose end is the end of all that a stream has to wait for. */
static u64 last_of(const struct stream *stream)
{
	return stream == &stream->context->legacy ? stream->context->last_blocking : stream->last;
}

static u32 wait_scope(const struct stream *stream)
{
	return stream == &stream->context->legacy ? SCOPE_BLOCKING : SCOPE_OWN;
}

int sim_cuStreamSynchronize(void *handle)
{
	u64 begin = now_ns();
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result || sim->config.instant)
		return result;
	result = capture_forbids(stream);
	if (result)
		return result;
	queue_wait_scope(stream->context->channel, last_of(stream), wait_scope(stream));
	ADD(process_row(stream->context->device)->blocked_synchronize_ns, now_ns() - begin);
	return CUDA_SUCCESS;
}

int sim_cuStreamQuery(void *handle)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);
	bool done;

	if (result || sim->config.instant)
		return result;
	result = capture_forbids(stream);
	if (result)
		return result;
	state_lock();
	device_advance_all(now_ns());
	done = queue_over(stream->context->channel, last_of(stream), wait_scope(stream));
	state_unlock();
	return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

int sim_cuStreamGetCtx(void *handle, void **out)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result)
		*out = stream->context;
	return result;
}

int sim_cuStreamGetCtx_v2(void *handle, void **out, void **green)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result) {
		*out = stream->green ? NULL : stream->context;
		*green = stream->green;
	}
	return result;
}

int sim_cuStreamGetDevice(void *handle, int *out)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result)
		*out = (int)stream->context->ordinal;
	return result;
}

int sim_cuStreamGetFlags(void *handle, u32 *flags)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result)
		*flags = stream->flags;
	return result;
}

int sim_cuStreamGetPriority(void *handle, int *priority)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result)
		*priority = stream->priority;
	return result;
}

int sim_cuStreamGetId(void *handle, u64 *id)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (!result)
		*id = stream->id;
	return result;
}
