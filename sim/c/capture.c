/* Stream capture: what is recorded is not submitted. */
#include "graph.h"

static struct capture *active; /* the newest: what a call without a stream would break */
static u64 next_id;
static u32 active_count;

static void leave(struct stream *stream)
{
	stream->capture = NULL;
	stream->capture_next = NULL;
}

static void join(struct capture *capture, struct stream *stream)
{
	stream->capture = capture;
	stream->capture_next = capture->members;
	capture->members = stream;
}

static int begin(void *handle, u32 mode, struct graph *graph)
{
	struct capture *capture;
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	if (stream == &stream->context->legacy || stream->capture || mode > 2)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	capture = object_new(MAGIC_CAPTURE, sizeof(*capture));
	capture->graph = graph ? graph : graph_new();
	capture->id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
	capture->thread = thread_id();
	capture->mode = mode;
	capture->origin = stream;
	process_lock();
	join(capture, stream);
	active = capture;
	active_count++;
	process_unlock();
	return CUDA_SUCCESS;
}

int sim_cuStreamBeginCapture_v2(void *stream, u32 mode)
{
	return begin(stream, mode, NULL);
}

int sim_cuStreamBeginCapture(void *stream)
{
	return begin(stream, 0, NULL);
}

int sim_cuStreamBeginCaptureToGraph(void *stream, void *graph, void **needs, void *edges,
				    size_t count, u32 mode)
{
	(void)needs, (void)edges, (void)count;
	if (!object_is(graph, MAGIC_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	return begin(stream, mode, graph);
}

int sim_cuStreamEndCapture(void *handle, void **out)
{
	struct capture *capture;
	struct stream *stream, *next;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	capture = stream->capture;
	if (!capture || capture->origin != stream)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture->mode != 2 && capture->thread != thread_id())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	process_lock();
	for (stream = capture->members; stream; stream = next) {
		next = stream->capture_next;
		leave(stream);
	}
	active_count--;
	if (!active_count)
		active = NULL;
	process_unlock();
	*out = capture->invalidated ? NULL : capture->graph;
	result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
	object_free(capture);
	return result;
}

bool capture_takes(struct stream *stream, u32 type, u64 duration_ns, int *result)
{
	struct capture *capture = stream->capture;

	if (!capture)
		return false;
	*result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
	if (!*result) {
		graph_record(capture->graph, type, duration_ns);
		ADD(process_row(stream->context->device)->captured, 1);
	}
	return true;
}

/* A call that must not be made while capturing breaks the capture. */
int capture_forbids(struct stream *stream)
{
	struct capture *capture = stream ? stream->capture : active;

	if (!capture)
		return CUDA_SUCCESS;
	if (!stream && (sim_thread.capture_mode == 2 || capture->mode == 2))
		return CUDA_SUCCESS;
	capture->invalidated = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static int status_of(void *handle, u32 *status, u64 *id, void **graph)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	*status = !stream->capture ? 0 : stream->capture->invalidated ? 2 : 1;
	if (id && stream->capture)
		*id = stream->capture->id;
	if (graph)
		*graph = stream->capture ? stream->capture->graph : NULL;
	return CUDA_SUCCESS;
}

int sim_cuStreamIsCapturing(void *stream, u32 *status)
{
	return status_of(stream, status, NULL, NULL);
}

int sim_cuStreamGetCaptureInfo(void *stream, u32 *status, u64 *id)
{
	return status_of(stream, status, id, NULL);
}

int sim_cuStreamGetCaptureInfo_v2(void *stream, u32 *status, u64 *id, void **graph, void **needs,
				  size_t *count)
{
	if (needs)
		*needs = NULL;
	if (count)
		*count = 0;
	return status_of(stream, status, id, graph);
}

int sim_cuStreamGetCaptureInfo_v3(void *stream, u32 *status, u64 *id, void **graph, void **needs,
				  void **edges, size_t *count)
{
	if (edges)
		*edges = NULL;
	return sim_cuStreamGetCaptureInfo_v2(stream, status, id, graph, needs, count);
}

int sim_cuThreadExchangeStreamCaptureMode(u32 *mode)
{
	u32 before = sim_thread.capture_mode;

	sim_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* An event recorded in a capture draws the stream that waits for it into the capture. */
int sim_cuStreamWaitEvent(void *handle, struct event *event, u32 flags)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	(void)flags;
	if (result)
		return result;
	if (!object_is(event, MAGIC_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture) {
		if (stream->capture && stream->capture != event->capture)
			return 905; /* CUDA_ERROR_STREAM_CAPTURE_ISOLATION */
		process_lock();
		if (!stream->capture)
			join(event->capture, stream);
		process_unlock();
		return CUDA_SUCCESS;
	}
	if (!event->recorded || stream->capture || sim->config.instant)
		return CUDA_SUCCESS;
	return queue_submit_wait(stream, event->channel, event->seq);
}
