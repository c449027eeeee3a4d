// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * One generic pair of programs for every traced function: the cookie says what
 * a call is. Entry notes the open call in the thread's row, return counts it.
 * Nothing is sent per call.
 */
#include "action.bpf.h"
#include "call.bpf.h"

/* A call that far below the stack pointer of the open one is nested in it. */
#define NESTED_WITHIN_BYTES (256 * 1024)
#define SKIP_RETURN 1

extern bool bpf_session_is_return(void) __attribute__((section(".ksyms")));

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
