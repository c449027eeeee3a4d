/* Sets of device memory: never blocking. */
#include <string.h>

#include "sim.h"

static int set(u64 target, u64 bytes, int value, bool fill, void *handle)
{
	struct stream *stream;
	struct sim_row *row;
	u64 duration = sim->config.copy_latency_ns, speed = sim->config.dtod_mb_per_s;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	duration += speed ? bytes * 1000 / speed : 0;
	if (capture_takes(stream, NODE_MEMSET, duration, &result))
		return result;
	if (fill && bytes <= sim->config.data_bytes && memory_is_device(target, bytes))
		memset((void *)target, value, bytes);
	if (!sim->config.instant) {
		issue_cost();
		result = queue_submit(stream, ITEM_COPY, duration, NULL);
		if (result)
			return result;
	}
	row = process_row(stream->context->device);
	ADD(row->sets, 1);
	ADD(row->set_bytes, bytes);
	return CUDA_SUCCESS;
}

#define SET(bits, type)                                                                            \
	int sim_cuMemsetD##bits##Async(u64 target, type value, size_t count, void *stream)         \
	{                                                                                          \
		return set(target, count * sizeof(type), (int)value, bits == 8 || !value, stream); \
	}                                                                                          \
	int sim_cuMemsetD##bits##_v2(u64 target, type value, size_t count)                         \
	{                                                                                          \
		return sim_cuMemsetD##bits##Async(target, value, count, NULL);                     \
	}                                                                                          \
	int sim_cuMemsetD##bits(u64 target, type value, u32 count)                                 \
	{                                                                                          \
		return sim_cuMemsetD##bits##Async(target, value, count, NULL);                     \
	}                                                                                          \
	int sim_cuMemsetD2D##bits##Async(u64 target, size_t pitch, type value, size_t width,       \
					 size_t height, void *stream)                              \
	{                                                                                          \
		(void)pitch;                                                                       \
		return set(target, width * height * sizeof(type), (int)value, false, stream);      \
	}                                                                                          \
	int sim_cuMemsetD2D##bits##_v2(u64 target, size_t pitch, type value, size_t width,         \
				       size_t height)                                              \
	{                                                                                          \
		return sim_cuMemsetD2D##bits##Async(target, pitch, value, width, height, NULL);    \
	}                                                                                          \
	int sim_cuMemsetD2D##bits(u64 target, u32 pitch, type value, u32 width, u32 height)        \
	{                                                                                          \
		return sim_cuMemsetD2D##bits##Async(target, pitch, value, width, height, NULL);    \
	}

SET(8, uint8_t)
SET(16, uint16_t)
SET(32, uint32_t)
