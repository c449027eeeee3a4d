/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Streams, events and capture: what a call says about order and recording. */
#ifndef GPUGAUGE_STREAM_H
#define GPUGAUGE_STREAM_H

#include "context.bpf.h"

/* cuda.h: this failure leaves the capture going */
#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_INVALID_HANDLE 400
#define CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD 908

INLINE void stream_created(struct process *process, struct thread *thread, __u32 context,
			   __u32 place)
{
	__u64 handle = result_handle(thread->open_pointer);

	if (handle)
		stream_add(process, handle, context, place);
}

INLINE void stream_created_green(struct process *process, struct thread *thread)
{
	struct context *green = context_find(process->number, CONTEXT_GREEN, thread->open_second);

	if (green)
		stream_created(process, thread, green->number, green->place);
	else
		stream_created(process, thread, 0, PLACE_UNKNOWN);
}

/*
 * At entry: once destroyed, the handle may come back from another thread's create.
 * Returns where it was, {place:32, context:32}, for a destroy that fails.
 */
INLINE __u64 stream_destroyed(struct process *process, __u64 handle)
{
	struct stream_key key = {.process_number = process->number, .handle = handle};
	struct stream *row = map_lookup(&streams, &key);

	if (!row)
		return 0;
	__u32 place = row->place, context = row->context;
	struct device_state *dev = device_at(process, place);

	/* What it still has outstanding can no longer be waited for by name. */
	if (STATE_STREAM(READ_ONCE(dev->state)) == row->number)
		OR(dev->state, (__u64)STREAM_MIXED);
	if (!map_delete(&streams, &key))
		refund(process, QUOTA_STREAMS);
	ADD(process->stream_generation, 1);
	return (__u64)place << 32 | context;
}

INLINE struct capture *capture_find(__u32 process_number, __u32 stream)
{
	struct capture_key key = {.process_number = process_number, .stream = stream};

	return map_lookup(&captures, &key);
}

/* The capture that a call on `stream` of this thread is recorded into. */
INLINE struct capture *capture_of(struct process *process, struct thread *thread, __u32 stream)
{
	struct capture *capture = capture_find(process->number, stream);

	if (capture || !thread->capture_stream)
		return capture;
	capture = capture_find(process->number, thread->capture_stream);
	/* Another thread may have begun one on that stream since. */
	return capture && capture->tid == (__u32)get_current_pid_tgid() ? capture : NULL;
}

/*
 * At entry of cuEventRecord. A submission that is still open may reach the
 * stream after the event: then the event can't vouch for anything.
 */
INLINE void event_recorded(struct process *process, struct thread *thread, struct where *where,
			   __u64 event)
{
	struct stream_key key = {.process_number = process->number, .handle = event};
	struct event_mark mark = {.stream = STREAM_MIXED, .place = where->place};
	__u64 ended, state;

	struct device_state *dev = device_at(process, where->place);

	idle_look(dev, &ended, &state);
	mark.ticket = STATE_TICKET(state);
	/* Recorded into a graph, it says nothing of what was submitted before. */
	if (idle_settled(ended, state) &&
	    !(READ_ONCE(process->captures) && capture_of(process, thread, where->stream)))
		mark.stream = where->stream;
	if (!map_update(&event_marks, &key, &mark, UPDATE_EXIST) || !charge(process, QUOTA_EVENTS))
		return;
	if (map_update(&event_marks, &key, &mark, UPDATE_NOEXIST)) {
		refund(process, QUOTA_EVENTS);
		if (map_update(&event_marks, &key, &mark, UPDATE_EXIST))
			lost(LOSS_EVENTS_FULL);
	}
}

/* At entry of a wait for an event: look at the device only if the event vouches for all. */
INLINE void event_look(struct process *process, struct thread *thread, __u64 event)
{
	struct stream_key key = {.process_number = process->number, .handle = event};
	struct event_mark *mark = map_lookup(&event_marks, &key);

	thread->state_seen = 0;
	thread->ended_seen = 1; /* never settled */
	if (!mark || mark->place >= PLACE_COUNT)
		return;
	thread->open_place = mark->place;
	thread->open_stream = mark->stream;
	struct device_state *dev = device_at(process, mark->place);

	if (mark->stream == STREAM_MIXED)
		return;
	idle_look(dev, &thread->ended_seen, &thread->state_seen);
	if (STATE_TICKET(thread->state_seen) != mark->ticket)
		thread->ended_seen = thread->state_seen = 1;
}

INLINE void event_destroyed(struct process *process, __u64 event)
{
	struct stream_key key = {.process_number = process->number, .handle = event};

	if (!map_delete(&event_marks, &key))
		refund(process, QUOTA_EVENTS);
}

INLINE void capture_begun(struct process *process, struct thread *thread)
{
	struct capture_key key = {
		.process_number = process->number,
		.stream = thread->open_stream,
	};
	struct capture fresh = {.tid = (__u32)get_current_pid_tgid()};

	if (map_update(&captures, &key, &fresh, UPDATE_EXIST)) {
		if (!charge(process, QUOTA_CAPTURES))
			return;
		if (map_update(&captures, &key, &fresh, UPDATE_NOEXIST)) {
			refund(process, QUOTA_CAPTURES);
			lost(LOSS_GRAPHS_FULL);
			return;
		}
		ADD(process->captures, 1);
	}
	thread->capture_stream = thread->open_stream;
}

INLINE struct graph *graph_find(__u32 process_number, __u64 handle)
{
	struct stream_key key = {.process_number = process_number, .handle = handle};

	return map_lookup(&graphs, &key);
}

INLINE void graph_put(struct process *process, __u64 handle, __u64 launches, bool unknown,
		      bool executable)
{
	struct stream_key key = {.process_number = process->number, .handle = handle};
	struct graph graph = {
		.launches = launches,
		.unknown = unknown,
		.executable = executable,
	};

	if (!handle || !map_update(&graphs, &key, &graph, UPDATE_EXIST) ||
	    !charge(process, QUOTA_GRAPHS))
		return;
	if (map_update(&graphs, &key, &graph, UPDATE_NOEXIST)) {
		refund(process, QUOTA_GRAPHS);
		if (map_update(&graphs, &key, &graph, UPDATE_EXIST))
			lost(LOSS_GRAPHS_FULL);
	}
}

INLINE void capture_ended(struct process *process, struct thread *thread, __u32 code)
{
	struct capture_key key = {
		.process_number = process->number,
		.stream = thread->open_stream,
	};
	struct capture *capture = map_lookup(&captures, &key);

	if (code == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || code == CUDA_ERROR_INVALID_VALUE ||
	    code == CUDA_ERROR_INVALID_HANDLE)
		return;
	if (code == 0) {
		__u64 handle = result_handle(thread->open_pointer);
		struct graph *into = graph_find(process->number, handle);
		__u64 launches = capture ? capture->launches : 0;
		bool unknown = !capture || capture->unknown;

		/* cuStreamBeginCaptureToGraph adds to a graph that had nodes already. */
		if (into) {
			launches += into->launches;
			unknown |= into->unknown;
		}
		graph_put(process, handle, launches, unknown, false);
	}
	if (capture) {
		if (!map_delete(&captures, &key))
			refund(process, QUOTA_CAPTURES);
		SUB(process->captures, 1);
	}
	if (thread->capture_stream == thread->open_stream)
		thread->capture_stream = 0;
}

#endif
