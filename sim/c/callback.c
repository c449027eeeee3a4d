/* Host functions and value operations: one thread of the process carries them out in stream order.
 */
#include <stdlib.h>

#include "sim.h"

struct callback {
	struct callback *next;
	u32 channel;
	u64 seq;
	void (*function)(void *);
	bool (*poll)(struct callback *); /* instead of function: true when over */
	void *data;
	u64 value;
	u32 flags;
	bool wide;
	void (*stream_function)(void *, int, void *);
	void *stream;
};

static struct callback *pending;
static bool running;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void callback_forget(void)
{
	pending = NULL;
	running = false;
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&arrived, NULL);
}

static bool run(struct callback *callback)
{
	if (!queue_host_ready(callback->channel, callback->seq))
		return false;
	if (callback->poll) {
		if (!callback->poll(callback))
			return false;
	} else if (callback->stream_function) {
		callback->stream_function(callback->stream, CUDA_SUCCESS, callback->data);
	} else {
		callback->function(callback->data);
	}
	queue_complete(callback->channel, callback->seq);
	return true;
}

static void *carry_out(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		struct callback **link = &pending;
		bool progress = false;

		while (!pending)
			pthread_cond_wait(&arrived, &lock);
		while (*link) {
			struct callback *callback = *link;
			bool over;

			pthread_mutex_unlock(&lock);
			over = run(callback);
			pthread_mutex_lock(&lock);
			if (over) {
				*link = callback->next; /* only this thread takes any out */
				free(callback);
				progress = true;
			} else {
				link = &callback->next;
			}
		}
		pthread_mutex_unlock(&lock);
		if (!progress)
			pause_ns(200000);
		pthread_mutex_lock(&lock);
	}
	return unused;
}

static int submit(struct stream *stream, struct callback template)
{
	struct callback *callback = malloc(sizeof(*callback)), **link;
	pthread_t thread;
	int result;

	if (!callback)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*callback = template;
	callback->channel = stream->context->channel;
	result = queue_submit(stream, ITEM_HOST, 0, &callback->seq);
	if (result) {
		free(callback);
		return result;
	}
	pthread_mutex_lock(&lock);
	for (link = &pending; *link; link = &(*link)->next)
		;
	*link = callback;
	if (!running) {
		running = !pthread_create(&thread, NULL, carry_out, NULL);
		if (running)
			pthread_detach(thread);
	}
	pthread_cond_signal(&arrived);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

int callback_submit(struct stream *stream, void (*function)(void *), void *data)
{
	return submit(stream, (struct callback){.function = function, .data = data});
}

int sim_cuLaunchHostFunc(void *handle, void (*function)(void *), void *data)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	if (stream->capture) {
		graph_record_host(stream->capture->graph, function, data);
		return CUDA_SUCCESS;
	}
	issue_cost();
	return callback_submit(stream, function, data);
}

int sim_cuStreamAddCallback(void *handle, void (*function)(void *, int, void *), void *data,
			    u32 flags)
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	(void)flags;
	if (result)
		return result;
	result = capture_forbids(stream);
	if (result)
		return result;
	issue_cost();
	return submit(stream, (struct callback){
				      .stream_function = function, .data = data, .stream = handle});
}

static bool write_value(struct callback *callback)
{
	if (callback->wide)
		__atomic_store_n((u64 *)callback->data, callback->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((u32 *)callback->data, (u32)callback->value, __ATOMIC_RELEASE);
	return true;
}

/* CUstreamWaitValue_flags: GEQ 0 (cyclic), EQ 1, AND 2, NOR 3. */
static bool wait_value(struct callback *callback)
{
	u64 found = callback->wide ? __atomic_load_n((u64 *)callback->data, __ATOMIC_ACQUIRE)
				   : __atomic_load_n((u32 *)callback->data, __ATOMIC_ACQUIRE);
	u64 value = callback->value;

	switch (callback->flags & 3) {
	case 0:
		return callback->wide ? (int64_t)(found - value) >= 0
				      : (int32_t)(u32)(found - value) >= 0;
	case 1:
		return found == value;
	case 2:
		return (found & value) != 0;
	default:
		return callback->wide ? ~(found | value) != 0 : (u32) ~(found | value) != 0;
	}
}

static int value_operation(void *handle, u64 address, u64 value, u32 flags, bool wide,
			   bool (*poll)(struct callback *))
{
	struct stream *stream;
	int result = stream_resolve(handle, &stream);

	if (result)
		return result;
	if (!address || (address & (wide ? 7 : 3)))
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_takes(stream, NODE_BATCH_MEM_OP, 0, &result))
		return result;
	return submit(stream, (struct callback){.poll = poll,
						.data = (void *)address,
						.value = value,
						.flags = flags,
						.wide = wide});
}

#define VALUE(name, type, wide, poll)                                                              \
	int sim_##name(void *stream, u64 address, type value, u32 flags)                           \
	{                                                                                          \
		return value_operation(stream, address, value, flags, wide, poll);                 \
	}                                                                                          \
	int sim_##name##_v2(void *stream, u64 address, type value, u32 flags)                      \
	{                                                                                          \
		return value_operation(stream, address, value, flags, wide, poll);                 \
	}

VALUE(cuStreamWriteValue32, u32, false, write_value)
VALUE(cuStreamWriteValue64, u64, true, write_value)
VALUE(cuStreamWaitValue32, u32, false, wait_value)
VALUE(cuStreamWaitValue64, u64, true, wait_value)
