// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * One generic pair of programs for every traced function: the cookie says what
 * a call is. Entry notes the open call in the thread's row, return counts it.
 * Nothing is sent per call.
 */
#include "graph.bpf.h"
#include "memory.bpf.h"

/* A call that far below the stack pointer of the open one is nested in it. */
#define NESTED_WITHIN_BYTES (256 * 1024)
#define SKIP_RETURN 1

extern bool bpf_session_is_return(void) __attribute__((section(".ksyms")));

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

INLINE void count_error(struct process *process, __u32 tid, __u32 place, __u32 slot, __u32 code)
{
	struct error_key key = {
		.process_number = process->number,
		.place = place,
		.slot = slot,
		.code = code,
	};
	__u64 *row = map_lookup(&errors, &key), one = 1;

	if (row) {
		ADD(*row, 1);
		return;
	}
	if (!charge(process, QUOTA_ERRORS))
		return;
	if (map_update(&errors, &key, &one, UPDATE_NOEXIST)) {
		refund(process, QUOTA_ERRORS);
		row = map_lookup(&errors, &key);
		if (row)
			ADD(*row, 1);
		else
			lost(LOSS_ERRORS_FULL);
		return;
	}
	emit(EVENT_FIRST_ERROR, process, tid, slot, code);
}

/* A launch: fresh ones teach the issue cost, deep ones may have met a full queue. */
INLINE void count_launch(struct process *process, struct thread *thread, struct counts *counts,
			 __u64 entry_ns, __u64 now_ns)
{
	__u64 duration_ns = now_ns - entry_ns;
	__u64 issue_ns = process->issue_ns[SLOT_LAUNCH] ?: ISSUE_DEFAULT_NS;
	__u64 base_ns = process->first_call_ns;
	__u32 distance = thread->open_distance;

	counts->launch_threads += thread->open_bytes;
	if (distance >= ISSUE_DEEP_AT_LEAST) {
		counts->deep_launches += 1;
		counts->deep_ns += duration_ns;
		if (duration_ns > 2 * issue_ns) {
			__u32 bucket = duration_bucket(duration_ns);

			BOUNDED(bucket);
			if (bucket < HISTOGRAM_BUCKETS)
				counts->histogram[CAUSE_LAUNCH_QUEUE][bucket] += 1;
			blocked_waited(process, entry_ns + issue_ns - base_ns, now_ns - base_ns);
		}
		return;
	}
	if (duration_ns > LAUNCH_OTHER_TIMES * issue_ns) {
		count_blocked(counts, CAUSE_LAUNCH_OTHER, duration_ns - issue_ns, duration_ns);
		blocked_waited(process, entry_ns + issue_ns - base_ns, now_ns - base_ns);
	} else if (distance && distance <= ISSUE_FRESH_AT_MOST) {
		__u32 bucket = issue_bucket(duration_ns);

		BOUNDED(bucket);
		if (bucket < ISSUE_BUCKETS) {
			counts->issue_histogram[bucket] += 1;
			counts->issue_sum_ns[bucket] += duration_ns;
		}
	}
}

/* Calls that wait only sometimes: what goes beyond twice their learned issue cost. */
INLINE void count_conditional(struct process *process, struct counts *counts, __u32 slot,
			      __u32 cause, __u64 limit_ns, __u64 entry_ns, __u64 now_ns)
{
	__u64 duration_ns = now_ns - entry_ns;
	__u64 base_ns = process->first_call_ns;

	if (slot >= SLOT_COUNT)
		return;
	__u64 issue_ns = learn_issue(process, slot, duration_ns, limit_ns);

	if (duration_ns > 2 * issue_ns) {
		count_blocked(counts, cause, duration_ns - issue_ns, duration_ns);
		blocked_waited(process, entry_ns + issue_ns - base_ns, now_ns - base_ns);
	}
}

/* Issue costs above these are not learned: they would hide what always waits. */
#define ISSUE_LIMIT_COPY_NS 20000
#define ISSUE_LIMIT_ALLOCATION_NS 1000000
#define ISSUE_LIMIT_GRAPH_NS 2000000

INLINE void count_waits(struct process *process, struct thread *thread, struct counts *counts,
			__u64 cookie, __u32 slot, __u64 now_ns)
{
	__u64 entry_ns = thread->open_entry_ns;
	__u64 duration_ns = now_ns - entry_ns;

	if (slot == SLOT_LAUNCH) {
		count_launch(process, thread, counts, entry_ns, now_ns);
	} else if (slot == SLOT_SYNCHRONIZE) {
		count_blocked(counts, CAUSE_SYNCHRONIZE, duration_ns, duration_ns);
	} else if (slot >= SLOT_COPY_HTOD && slot <= SLOT_SET) {
		/* Sets wait as copies do: for pinned memory, and for room in the queue. */
		if (COOKIE_FIELD(cookie, BLOCKS))
			count_blocked(counts, CAUSE_COPY, duration_ns, duration_ns);
		else
			count_conditional(process, counts, slot, CAUSE_COPY, ISSUE_LIMIT_COPY_NS,
					  entry_ns, now_ns);
	} else if (slot == SLOT_ALLOCATE || slot == SLOT_FREE) {
		count_conditional(process, counts, slot, CAUSE_ALLOCATION,
				  ISSUE_LIMIT_ALLOCATION_NS, entry_ns, now_ns);
	} else if (slot == SLOT_GRAPH_LAUNCH || slot == SLOT_SUBMIT_OTHER) {
		count_conditional(process, counts, slot, CAUSE_LAUNCH_QUEUE, ISSUE_LIMIT_GRAPH_NS,
				  entry_ns, now_ns);
	}
}

INLINE bool is_poll(__u32 slot)
{
	return slot == SLOT_POLL_READY || slot == SLOT_POLL_NOT_READY;
}

/* The open call of this thread is over. */
INLINE void count_call(struct process *process, struct thread *thread, __u32 tid, __u64 cookie,
		       __u32 code, __u64 now_ns)
{
	__u32 place = thread->open_place;
	__u32 slot = thread->open_direction ?: COOKIE_FIELD(cookie, SLOT);
	struct capture *capture = NULL;
	bool failed = code != 0;

	if (place >= PLACE_COUNT)
		place = PLACE_UNKNOWN;
	if (is_poll(slot) && code == CUDA_ERROR_NOT_READY) {
		slot = SLOT_POLL_NOT_READY;
		failed = false;
	}
	if (thread->open_flags & OPEN_CAPTURED) {
		capture = capture_of(process, thread, thread->open_stream);
		if (capture && !failed && slot == SLOT_LAUNCH)
			ADD(capture->launches, 1);
	}
	struct counts *counts = counts_of(process, thread, tid, place);

	if (COOKIE_FIELD(cookie, ACTION) == ACTION_GRAPH_LAUNCH && !failed)
		graph_launched(process, thread, counts, capture);
	if (failed)
		count_error(process, tid, place, slot, code);
	if (!counts)
		return;
	if (thread->open_flags & OPEN_CAPTURED)
		slot = SLOT_CAPTURED;
	BOUNDED(slot);
	if (slot >= SLOT_COUNT)
		return;
	struct slot_counts *row = &counts->slots[slot];

	row->calls += 1;
	row->duration_ns += now_ns - thread->open_entry_ns;
	if (failed)
		row->errors += 1;
	else if (COOKIE_FIELD(cookie, SLOT) != SLOT_LAUNCH && COOKIE_FIELD(cookie, SIZE))
		row->bytes += thread->open_bytes;
	count_waits(process, thread, counts, cookie, slot, now_ns);
}

/* The call of a function whose return is not seen. */
ONCE int count_entry(__u32 tid, __u64 cookie, __u64 now_ns)
{
	struct thread *thread = map_lookup(&threads, &tid);
	struct process *process = thread ? process_of(thread) : NULL;

	if (process)
		count_call(process, thread, tid, cookie, 0, now_ns);
	return 0;
}

/* True when this hit is the same call, seen through another link to the same file. */
INLINE bool duplicate(struct thread *thread, __u64 cookie, __u64 sp)
{
	__u64 other = thread->open_sp ? thread->open_cookie : thread->last_cookie;
	__u64 at = thread->open_sp ?: thread->last_sp;

	return at == sp && (__u32)COOKIE_FIELD(other, ROW) == COOKIE_FIELD(cookie, ROW) &&
	       COOKIE_FIELD(other, LINK) != COOKIE_FIELD(cookie, LINK);
}

INLINE void size_and_stream(struct registers *ctx, struct process *process, struct thread *thread,
			    __u32 tid, __u64 cookie, struct where *where)
{
	__u32 size = COOKIE_FIELD(cookie, SIZE);
	__u32 stream_default = COOKIE_FIELD(cookie, STREAM_DEFAULT);
	__u64 handle = 0;
	bool readable = true;

	where->stream = STREAM_MIXED;
	if (size == SIZE_LAUNCH_ARGS) {
		readable = launch_arguments(ctx, &thread->open_bytes, &handle);
	} else if (size == SIZE_LAUNCH_CONFIG) {
		readable = launch_configuration(ctx, &thread->open_bytes, &handle);
	} else {
		if (size && size != SIZE_UNKNOWN && size != SIZE_BATCH_3D)
			call_size(ctx, thread, tid, cookie);
		if (COOKIE_FIELD(cookie, SLOT) != SLOT_ALLOCATE)
			/* Of an allocation that fails, the size is what was too much. */
			thread->open_bytes = size_believed(thread->open_bytes, FAMILY_HOST);
		if (stream_default != STREAM_NONE)
			readable = stream_handle(ctx, COOKIE_FIELD(cookie, STREAM_ARG), &handle);
	}
	if (!readable)
		lost(LOSS_STREAM_UNREADABLE);
	else if (stream_default != STREAM_NONE)
		where_stream(process, thread, handle, stream_default, where);
}

/* Put the call on the device, unless it is recorded into a graph. */
INLINE void submit(struct process *process, struct thread *thread, struct where *where,
		   __u64 now_ns)
{
	bool contended = false;

	if (UNLIKELY(READ_ONCE(process->captures)) && capture_of(process, thread, where->stream)) {
		thread->open_flags |= OPEN_CAPTURED;
		return;
	}
	struct device_state *dev = device_at(process, where->place);

	thread->open_distance = idle_submit(dev, where->stream, now_ns, &contended);
	thread->open_flags |= OPEN_SUBMITTED;
	if (contended)
		lost(LOSS_STATE_CONTENDED);
}

/*
 * A copy between devices is outstanding on the source too, whatever its stream.
 * Returns that place + 1, or 0.
 */
ONCE int peer_submit(__u32 slot, __u32 number, __u64 source, __u32 known)
{
	struct process *process = map_lookup(&processes, &slot);
	struct context *row = context_find(number, CONTEXT_PLAIN, source);
	bool contended = false;

	if (!process || !row)
		return 0;
	__u32 place = row->place;
	struct device_state *dev = device_at(process, place);

	if (place == PLACE_UNKNOWN || place == known)
		return 0;
	idle_submit(dev, STREAM_MIXED, ktime_get_ns(), &contended);
	if (contended)
		lost(LOSS_STATE_CONTENDED);
	return place + 1;
}

/* Returns 0 when the return of this call is wanted. */
INLINE int call_begins(struct registers *ctx)
{
	__u64 cookie = get_attach_cookie(ctx);
	__u64 id = get_current_pid_tgid();
	__u32 tid = (__u32)id;
	__u64 sp = stack_pointer(ctx);

	/* The canary, which only shows that a file is probed: discovery/canary.py. */
	if (UNLIKELY(!cookie))
		return SKIP_RETURN;
	struct thread *thread = map_lookup(&threads, &tid);

	if (UNLIKELY(!thread)) {
		thread_start(id);
		thread = map_lookup(&threads, &tid);
		if (!thread)
			return SKIP_RETURN;
	}
	struct process *process = process_of(thread);

	if (UNLIKELY(!process || (process->agent_flags & PROCESS_UNTRACED)))
		return SKIP_RETURN;
	thread->hits += 1;
	if (UNLIKELY(thread->open_sp)) {
		if (sp < thread->open_sp && sp > thread->open_sp - NESTED_WITHIN_BYTES)
			return SKIP_RETURN;
		if (duplicate(thread, cookie, sp)) {
			lost(LOSS_DUPLICATE_HITS);
			emit(EVENT_DUPLICATE, process, tid, COOKIE_FIELD(cookie, LINK),
			     COOKIE_FIELD(thread->open_cookie, LINK));
			return SKIP_RETURN;
		}
		thread_abandon(process, thread, ktime_get_ns());
		lost(LOSS_ABANDONED_CALLS);
	}
	bool returns = COOKIE_FIELD(cookie, RETURNS);

	if (UNLIKELY(!returns && duplicate(thread, cookie, sp))) {
		lost(LOSS_DUPLICATE_HITS);
		return SKIP_RETURN;
	}
	struct where where;
	__u32 context_arg = COOKIE_FIELD(cookie, CONTEXT_ARG);
	__u32 pointer_arg = COOKIE_FIELD(cookie, POINTER_ARG);
	__u32 action = COOKIE_FIELD(cookie, ACTION);

	thread->open_bytes = 0;
	thread->open_flags = 0;
	thread->open_distance = 0;
	thread->open_direction = 0;
	context_top(process, thread, &where.context, &where.place);
	if (context_arg) {
		__u64 handle = register_argument(ctx, context_arg);

		if (handle) {
			struct context *row = context_get(process, CONTEXT_PLAIN, handle);

			where.context = row ? row->number : 0;
			where.place = row ? row->place : PLACE_UNKNOWN;
		}
	}
	size_and_stream(ctx, process, thread, tid, cookie, &where);
	thread->open_pointer = pointer_arg ? register_argument(ctx, pointer_arg) : 0;
	if (action) {
		__u32 second = second_argument(action, COOKIE_FIELD(cookie, SIZE_ARG));

		thread->open_second = 0;
		if (second && !argument(ctx, second, &thread->open_second))
			lost(LOSS_RESULT_UNREADABLE);
	}
	__u64 now_ns = ktime_get_ns();

	thread->open_entry_ns = now_ns;
	thread->open_cookie = cookie;
	thread->open_place = where.place;
	thread->open_context = where.context;
	thread->open_stream = where.stream;
	if (is_wait(action)) {
		idle_look(device_at(process, where.place), &thread->ended_seen,
			  &thread->state_seen);
	} else if (action && action != ACTION_GRAPH_LAUNCH) {
		act_at_entry(tid, cookie, register_argument(ctx, 1), register_argument(ctx, 2));
	}
	if (COOKIE_FIELD(cookie, SUBMITS)) {
		if (UNLIKELY(context_arg))
			thread->open_second =
				peer_submit(process->slot, process->number,
					    register_argument(ctx, context_arg + 2), where.place);
		submit(process, thread, &where, now_ns);
	}
	if (!returns) {
		thread->last_sp = sp;
		thread->last_cookie = cookie;
		if (thread->open_flags & OPEN_SUBMITTED)
			idle_submitted(device_at(process, where.place));
		count_entry(tid, cookie, now_ns);
		return SKIP_RETURN;
	}
	if (COOKIE_FIELD(cookie, BLOCKS)) {
		if (blocked_enter(process, now_ns - process->first_call_ns))
			thread->open_flags |= OPEN_BLOCKED;
		else
			lost(LOSS_STATE_CONTENDED);
	}
	thread->open_sp = sp;
	return 0;
}

INLINE int call_returned(struct registers *ctx)
{
	__u64 cookie = get_attach_cookie(ctx);
	__u32 tid = (__u32)get_current_pid_tgid();
	struct thread *thread = map_lookup(&threads, &tid);

	if (!thread || !thread->open_sp || thread->open_cookie != cookie ||
	    thread->open_sp + RETURN_POPS != stack_pointer(ctx))
		return 0;
	struct process *process = process_of(thread);

	if (!process)
		return 0;
	__u64 now_ns = ktime_get_ns();
	__u32 code = return_code(ctx), action = COOKIE_FIELD(cookie, ACTION);

	thread->hits += 1;
	if (thread->open_flags & OPEN_SUBMITTED)
		idle_submitted(device_at(process, thread->open_place));
	if (UNLIKELY(COOKIE_FIELD(cookie, SUBMITS) && COOKIE_FIELD(cookie, CONTEXT_ARG)))
		peer_submitted(process, thread);
	if (thread->open_flags & OPEN_BLOCKED)
		blocked_leave(process, now_ns - process->first_call_ns);
	if (is_wait(action) || is_event_wait(action)) {
		if (code == 0)
			drained(process, thread, action, now_ns);
	} else if (action && action != ACTION_GRAPH_LAUNCH) {
		act_at_return(tid, cookie, code);
	}
	count_call(process, thread, tid, cookie, code, now_ns);
	thread->open_sp = 0;
	return 0;
}

SEC("uprobe.multi/enter")
int enter_multi(struct registers *ctx)
{
	call_begins(ctx);
	return 0;
}

SEC("uretprobe.multi/leave")
int leave_multi(struct registers *ctx)
{
	return call_returned(ctx);
}

SEC("uprobe.session/call")
int call_session(struct registers *ctx)
{
	if (bpf_session_is_return())
		return call_returned(ctx);
	return call_begins(ctx);
}

SEC("uprobe/enter")
int enter_perf(struct registers *ctx)
{
	call_begins(ctx);
	return 0;
}

SEC("uretprobe/leave")
int leave_perf(struct registers *ctx)
{
	return call_returned(ctx);
}

SEC("raw_tp/sched_process_exit")
int thread_exits(void *ctx)
{
	__u64 id = get_current_pid_tgid();
	__u32 tgid = id >> 32;

	thread_end((__u32)id, true);
	if (last_thread() || (!task_signal_offset && tgid == (__u32)id))
		process_end(tgid, PROCESS_ENDED, EVENT_PROCESS_EXIT);
	return 0;
}

/* args: task, the thread id before (a thread that execs takes its leader's), binprm */
struct exec_args {
	__u64 task;
	__u64 old_tid;
};

SEC("raw_tp/sched_process_exec")
int process_execs(struct exec_args *ctx)
{
	/* A thread that execs is in no call of the driver. */
	thread_end((__u32)ctx->old_tid, false);
	process_end(get_current_pid_tgid() >> 32, PROCESS_ENDED | PROCESS_EXECED,
		    EVENT_PROCESS_EXEC);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
