/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What a call does to contexts, streams, graphs and memory: before and after the driver runs. */
#ifndef GPUGAUGE_ACTION_H
#define GPUGAUGE_ACTION_H

#include "graph.bpf.h"
#include "handle.bpf.h"

/* The argument beside the pointer that an action needs; 0: none. */
INLINE __u32 second_argument(__u32 action, __u32 size_arg)
{
	switch (action) {
	case ACTION_CTX_CREATE:
	case ACTION_PRIMARY_RETAIN:
	case ACTION_PRIMARY_RELEASE:
	case ACTION_PRIMARY_RESET:
	case ACTION_GREEN_CREATE:
	case ACTION_DEVICE_UUID:
	case ACTION_DEVICE_UUID_V2:
	case ACTION_GRAPH_ADD_NODE:
		return size_arg;
	case ACTION_GREEN_TO_CTX:
	case ACTION_STREAM_CREATE_GREEN:
	case ACTION_GRAPH_CLONE:
	case ACTION_GRAPH_INSTANTIATE:
	case ACTION_ALLOCATE: /* *pitch */
		return 2;
	case ACTION_MEM_MAP: /* handle */
		return 4;
	case ACTION_GRAPH_ADD_CHILD:
		return 5;
	default:
		return 0;
	}
}

/* Waits for a stream or a context: what they see of the device is looked at inline. */
INLINE bool is_wait(__u32 action)
{
	return action >= ACTION_STREAM_SYNC && action <= ACTION_CTX_SYNC;
}

INLINE bool is_event_wait(__u32 action)
{
	return action == ACTION_EVENT_SYNC || action == ACTION_EVENT_QUERY;
}

/* What must be done before the driver runs, but for waits. By itself, as all that is rare. */
ONCE int act_at_entry(__u32 tid, __u64 cookie, __u64 first, __u64 second)
{
	struct thread *thread = map_lookup(&threads, &tid);
	struct process *process = thread ? process_of(thread) : NULL;

	if (!process)
		return 0;
	struct where where = {
		.context = thread->open_context,
		.place = thread->open_place,
		.stream = thread->open_stream,
	};

	switch (COOKIE_FIELD(cookie, ACTION)) {
	case ACTION_EVENT_SYNC:
	case ACTION_EVENT_QUERY:
		event_look(process, thread, thread->open_pointer);
		break;
	case ACTION_EVENT_RECORD:
		event_recorded(process, thread, &where, thread->open_pointer);
		break;
	case ACTION_EVENT_DESTROY:
		event_destroyed(process, thread->open_pointer);
		break;
	case ACTION_STREAM_DESTROY:
		thread->open_second = stream_destroyed(process, thread->open_pointer);
		break;
	case ACTION_CTX_DESTROY:
		thread->open_second = context_named(process, CONTEXT_PLAIN, thread->open_pointer);
		break;
	case ACTION_GREEN_DESTROY:
		thread->open_second = context_named(process, CONTEXT_GREEN, thread->open_pointer);
		break;
	case ACTION_GRAPH_DESTROY:
	case ACTION_GRAPH_EXEC_DESTROY:
		graph_forget(process, thread->open_pointer);
		break;
	case ACTION_FREE:
		if (!READ_ONCE(process->captures) || !COOKIE_FIELD(cookie, SUBMITS) ||
		    !capture_of(process, thread, where.stream))
			free_begins(process, thread, COOKIE_FIELD(cookie, FAMILY));
		break;
	case ACTION_MEM_RELEASE:
		release_begins(process, thread);
		break;
	case ACTION_MEM_UNMAP:
		range_unmapped(process->slot, process->number, thread->open_pointer, second);
		break;
	case ACTION_MEM_MAP:
		thread->open_bytes = second;
		break;
	case ACTION_CHECKPOINT_LOCK:
		emit(EVENT_CHECKPOINT_LOCK, process, 0, first, COOKIE_FIELD(cookie, LINK));
		break;
	case ACTION_CHECKPOINT_UNLOCK:
		emit(EVENT_CHECKPOINT_UNLOCK, process, 0, first, COOKIE_FIELD(cookie, LINK));
		break;
	}
	return 0;
}

/* A wait that succeeded may have drained its device. */
INLINE void drained(struct process *process, struct thread *thread, __u32 action, __u64 now_ns)
{
	__u32 place = thread->open_place, stream = thread->open_stream;

	struct device_state *dev = device_at(process, place);

	if (action == ACTION_CTX_SYNC) {
		/* The only context of this process here: all of its work is the context's. */
		if (place == PLACE_UNKNOWN || READ_ONCE(dev->contexts) != 1)
			return;
		stream = STREAM_MIXED;
	} else if (stream == STREAM_MIXED) {
		return;
	}
	idle_drain(dev, thread->ended_seen, thread->state_seen, stream, now_ns);
}

/* What a call that succeeded has changed. */
INLINE void act_at_success(struct process *process, struct thread *thread, __u64 cookie)
{
	switch (COOKIE_FIELD(cookie, ACTION)) {
	case ACTION_CTX_SET:
		context_use(process, thread, false);
		break;
	case ACTION_CTX_PUSH:
		context_use(process, thread, true);
		break;
	case ACTION_CTX_POP:
		context_pop(thread);
		break;
	case ACTION_CTX_CREATE:
		context_created(process, thread);
		break;
	case ACTION_CTX_DESTROY:
		context_destroyed(process, thread);
		break;
	case ACTION_GREEN_DESTROY:
		green_destroyed(process, thread);
		break;
	case ACTION_PRIMARY_RETAIN:
		primary_retained(process, result_handle(thread->open_pointer), thread->open_second);
		break;
	case ACTION_PRIMARY_RELEASE:
		primary_released(process, thread->open_second, false);
		break;
	case ACTION_PRIMARY_RESET:
		primary_released(process, thread->open_second, true);
		break;
	case ACTION_GREEN_CREATE:
		green_created(process, thread);
		break;
	case ACTION_GREEN_TO_CTX:
		green_to_context(process, thread);
		break;
	case ACTION_DEVICE_UUID:
		device_uuid(process, thread->open_pointer, thread->open_second, 1);
		break;
	case ACTION_DEVICE_UUID_V2:
		device_uuid(process, thread->open_pointer, thread->open_second, 2);
		break;
	case ACTION_STREAM_CREATE:
		stream_created(process, thread, thread->open_context, thread->open_place);
		break;
	case ACTION_STREAM_CREATE_GREEN:
		stream_created_green(process, thread);
		break;
	case ACTION_CAPTURE_BEGIN:
		capture_begun(process, thread);
		break;
	case ACTION_GRAPH_CREATE:
		graph_put(process, result_handle(thread->open_pointer), 0, false, false);
		break;
	case ACTION_GRAPH_ADD_LAUNCH:
		graph_add(process, thread->open_pointer, 1, false);
		break;
	case ACTION_GRAPH_ADD_NODE:
		graph_add_typed(process, thread->open_pointer, thread->open_second);
		break;
	case ACTION_GRAPH_ADD_CHILD:
		graph_add_child(process, thread->open_pointer, thread->open_second);
		break;
	case ACTION_GRAPH_CLONE:
		graph_derive(process, thread, false);
		break;
	case ACTION_GRAPH_INSTANTIATE:
		graph_derive(process, thread, true);
		break;
	case ACTION_GRAPH_NODE_DESTROY:
		OR(process->flags, PROCESS_NODES_DESTROYED);
		break;
	case ACTION_MEM_CREATE:
		allocation_returned(process, thread, FAMILY_VIRTUAL, SIZE_ARG, 0);
		break;
	case ACTION_MEM_MAP:
		range_mapped(process, thread);
		break;
	case ACTION_MEM_RETAIN:
		handle_change(process->slot, process->number, result_handle(thread->open_pointer),
			      HANDLE_REFERENCE);
		break;
	case ACTION_MEM_IMPORT:
		/* Another process requested it. */
		thread->open_bytes = 0;
		allocation_returned(process, thread, FAMILY_VIRTUAL, SIZE_ARG, 0);
		break;
	case ACTION_HOST_REGISTER:
		thread->open_bytes = size_believed(thread->open_bytes, FAMILY_HOST_REGISTERED);
		allocation_add(process, thread, FAMILY_HOST_REGISTERED, thread->open_pointer,
			       thread->open_bytes, false);
		break;
	}
}

/* What a call that failed has changed all the same. */
INLINE void act_at_failure(struct process *process, struct thread *thread, __u64 cookie)
{
	__u32 action = COOKIE_FIELD(cookie, ACTION);

	if (action == ACTION_FREE)
		free_failed(process, thread);
	else if (action == ACTION_EVENT_RECORD)
		/* It vouches for nothing: waiting for it succeeds at once. */
		event_destroyed(process, thread->open_pointer);
	else if (action == ACTION_MEM_RELEASE)
		release_failed(process, thread);
	else if (action == ACTION_MEM_CREATE)
		allocation_returned(process, thread, FAMILY_VIRTUAL, SIZE_ARG, 1);
	else if (action == ACTION_HOST_REGISTER)
		allocation_returned(process, thread, FAMILY_HOST_REGISTERED, SIZE_ARG, 1);
	else if (action == ACTION_STREAM_DESTROY && thread->open_second)
		stream_add(process, thread->open_pointer, (__u32)thread->open_second,
			   thread->open_second >> 32);
}

/* What a call other than a wait has changed. By itself, as all that is rare. */
ONCE int act_at_return(__u32 tid, __u64 cookie, __u32 code)
{
	struct thread *thread = map_lookup(&threads, &tid);
	struct process *process = thread ? process_of(thread) : NULL;
	__u32 action = COOKIE_FIELD(cookie, ACTION);

	if (!process)
		return 0;
	if (action == ACTION_FREE)
		free_returned(thread);
	if (action == ACTION_CAPTURE_END)
		capture_ended(process, thread, code);
	else if (action == ACTION_ALLOCATE && !(thread->open_flags & OPEN_CAPTURED))
		allocation_returned(process, thread, COOKIE_FIELD(cookie, FAMILY),
				    COOKIE_FIELD(cookie, SIZE), code);
	else if (code == 0)
		act_at_success(process, thread, cookie);
	else
		act_at_failure(process, thread, cookie);
	return 0;
}

#endif
