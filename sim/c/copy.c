/* Copies and sets. Which ones block, and for how long, is as measured on a real device. */
#include <string.h>

#include "sim.h"
#include "copy.h"

static void count(u32 device, u32 direction, u64 bytes)
{
	u64 *copies = &process_row(device)->copies_htod, *sums = &process_row(device)->bytes_htod;

	ADD(copies[direction], 1);
	ADD(sums[direction], bytes);
}

static u64 duration_of(u32 direction, u64 bytes, bool pinned)
{
	u64 speed;

	if (direction == COPY_DTOD)
		speed = sim->config.dtod_mb_per_s;
	else if (pinned || direction == COPY_PEER)
		speed = sim->config.pinned_mb_per_s;
	else if (direction == COPY_HTOD)
		speed = sim->config.pageable_htod_mb_per_s;
	else
		speed = sim->config.pageable_dtoh_mb_per_s;
	return sim->config.copy_latency_ns + (speed ? bytes * 1000 / speed : 0);
}

/*
 * An asynchronous copy of pageable memory waits inside the call, except a
 * small one to the device, which is staged. Synchronous ones wait; between
 * device memory neither does.
 */
static bool waits(const struct copy *copy, bool pinned)
{
	if (copy->direction == COPY_DTOD || copy->direction == COPY_PEER)
		return false;
	if (!copy->async)
		return true;
	return !pinned &&
	       !(copy->direction == COPY_HTOD && copy->bytes <= sim->config.staged_bytes);
}

/* cuMemcpy tells no direction: unified addresses do, here as on a device. */
static u32 model_direction(const struct copy *copy)
{
	bool from, to;

	if (copy->direction != COPY_UNKNOWN)
		return copy->direction;
	from = memory_is_device((u64)copy->source, 1);
	to = memory_is_device((u64)copy->target, 1);
	return from && to ? COPY_DTOD : from ? COPY_DTOH : COPY_HTOD;
}

int copy_run(const struct copy *copy)
{
	struct copy real = *copy;
	struct stream *stream;
	struct sim_row *row;
	u64 begin = now_ns(), seq, duration;
	const void *host;
	bool pinned;
	int result = stream_resolve(copy->stream, &stream);

	if (result)
		return result;
	real.direction = model_direction(copy);
	host = real.direction == COPY_HTOD ? copy->source : copy->target;
	pinned = copy->pinned || (real.direction != COPY_HTOD && real.direction != COPY_DTOH) ||
		 memory_is_pinned(host);
	duration = duration_of(real.direction, copy->bytes, pinned);
	if (copy->async && capture_takes(stream, NODE_MEMCPY, duration, &result))
		return result;
	if (copy->source && copy->target && copy->bytes <= sim->config.data_bytes)
		memmove(copy->target, copy->source, copy->bytes);
	row = process_row(stream->context->device);
	if (!sim->config.instant) {
		issue_cost();
		result = queue_submit(stream, ITEM_COPY, duration, &seq);
		if (result)
			return result;
		if (waits(&real, pinned)) {
			queue_wait(stream->context->channel, seq);
			ADD(row->blocked_copy_ns, now_ns() - begin);
		}
	}
	count(stream->context->device, copy->direction, copy->bytes);
	return CUDA_SUCCESS;
}

#define COPY(name, way, target_type, source_type)                                                  \
	int sim_##name##_v2(target_type target, source_type source, size_t bytes)                  \
	{                                                                                          \
		struct copy copy = {way,  bytes, (void *)target, (const void *)source,             \
				    NULL, false, false};                                           \
		return copy_run(&copy);                                                            \
	}                                                                                          \
	int sim_##name##Async_v2(target_type target, source_type source, size_t bytes,             \
				 void *stream)                                                     \
	{                                                                                          \
		struct copy copy = {way,    bytes, (void *)target, (const void *)source,           \
				    stream, true,  false};                                         \
		return copy_run(&copy);                                                            \
	}                                                                                          \
	int sim_##name(target_type target, source_type source, u32 bytes)                          \
	{                                                                                          \
		return sim_##name##_v2(target, source, bytes);                                     \
	}                                                                                          \
	int sim_##name##Async(target_type target, source_type source, u32 bytes, void *stream)     \
	{                                                                                          \
		return sim_##name##Async_v2(target, source, bytes, stream);                        \
	}

COPY(cuMemcpyHtoD, COPY_HTOD, u64, const void *)
COPY(cuMemcpyDtoH, COPY_DTOH, void *, u64)
COPY(cuMemcpyDtoD, COPY_DTOD, u64, u64)

int sim_cuMemcpy(u64 target, u64 source, size_t bytes)
{
	struct copy copy = {COPY_UNKNOWN, bytes, (void *)target, (const void *)source,
			    NULL,	  false, false};

	return copy_run(&copy);
}

int sim_cuMemcpyAsync(u64 target, u64 source, size_t bytes, void *stream)
{
	struct copy copy = {COPY_UNKNOWN, bytes, (void *)target, (const void *)source,
			    stream,	  true,	 false};

	return copy_run(&copy);
}

int sim_cuMemcpyPeerAsync(u64 target, void *target_context, u64 source, void *source_context,
			  size_t bytes, void *stream)
{
	struct copy copy = {COPY_PEER, bytes, (void *)target, (const void *)source,
			    stream,    true,  false};

	if (!context_check(target_context) || !context_check(source_context))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_run(&copy);
}

int sim_cuMemcpyPeer(u64 target, void *target_context, u64 source, void *source_context,
		     size_t bytes)
{
	return sim_cuMemcpyPeerAsync(target, target_context, source, source_context, bytes, NULL);
}
