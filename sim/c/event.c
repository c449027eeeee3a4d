/* Events: a mark in a stream, with the device's own time. */
#include "sim.h"

int sim_cuEventCreate(void **out, u32 flags)
{
	struct event *event;

	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	event = object_new(MAGIC_EVENT, sizeof(*event));
	event->flags = flags;
	event->context = context_current();
	*out = event;
	return CUDA_SUCCESS;
}

int sim_cuEventDestroy_v2(void *handle)
{
	if (!object_is(handle, MAGIC_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	object_free(handle);
	return CUDA_SUCCESS;
}

int sim_cuEventDestroy(void *handle)
{
	return sim_cuEventDestroy_v2(handle);
}

int sim_cuEventRecord(struct event *event, void *handle)
{
	struct stream *stream;
	int result;

	if (!object_is(event, MAGIC_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	result = stream_resolve(handle, &stream);
	if (result)
		return result;
	event->capture = stream->capture;
	if (stream->capture)
		return stream->capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
						    : CUDA_SUCCESS;
	event->recorded = true;
	event->done_ns = 0;
	event->channel = stream->context->channel;
	if (sim->config.instant) {
		event->done_ns = now_ns();
		return CUDA_SUCCESS;
	}
	return queue_submit(stream, ITEM_MARK, 0, &event->seq);
}

int sim_cuEventRecordWithFlags(struct event *event, void *stream, u32 flags)
{
	(void)flags;
	return sim_cuEventRecord(event, stream);
}

/* Note the time of a mark that the device passed. */
static bool passed(struct event *event)
{
	u64 when = 0;
	bool done;

	if (!event->recorded || event->done_ns)
		return true;
	state_lock();
	device_advance_all(now_ns());
	done = queue_done(event->channel, event->seq, &when);
	state_unlock();
	if (done)
		event->done_ns = when ? when : now_ns();
	return done;
}

int sim_cuEventQuery(struct event *event)
{
	if (!object_is(event, MAGIC_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return passed(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

int sim_cuEventSynchronize(struct event *event)
{
	u64 begin = now_ns();

	if (!object_is(event, MAGIC_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!passed(event)) {
		queue_wait(event->channel, event->seq);
		passed(event);
	}
	ADD(process_row(event->context->device)->blocked_synchronize_ns, now_ns() - begin);
	return CUDA_SUCCESS;
}

int sim_cuEventElapsedTime(float *milliseconds, struct event *start, struct event *end)
{
	if (!object_is(start, MAGIC_EVENT) || !object_is(end, MAGIC_EVENT) || !start->recorded ||
	    !end->recorded || ((start->flags | end->flags) & 2)) /* CU_EVENT_DISABLE_TIMING */
		return CUDA_ERROR_INVALID_HANDLE;
	if (!passed(start) || !passed(end))
		return CUDA_ERROR_NOT_READY;
	*milliseconds = (float)((double)(int64_t)(end->done_ns - start->done_ns) / 1e6);
	return CUDA_SUCCESS;
}

int sim_cuEventElapsedTime_v2(float *milliseconds, struct event *start, struct event *end)
{
	return sim_cuEventElapsedTime(milliseconds, start, end);
}
