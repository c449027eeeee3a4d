/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Processes and threads: their rows from the first traced call to the end. */
#ifndef GPUGAUGE_PROCESS_H
#define GPUGAUGE_PROCESS_H

#include "args.bpf.h"
#include "blocked.bpf.h"
#include "quota.bpf.h"

/*
 * Where Linux keeps the number of live threads of a process, read from its BTF
 * by the loader; 0: not known, and the agent finds ended processes itself.
 */
const volatile __u32 task_signal_offset = 0;
const volatile __u32 signal_live_offset = 0;

INLINE void copy_comm(char *to, const char *from)
{
	for (int i = 0; i < LIMIT_COMM; i++)
		to[i] = from[i];
}

INLINE void emit(__u32 type, struct process *process, __u32 tid, __u64 first, __u64 second)
{
	struct event *event;

	if (!ring_take(process->quota))
		return;
	event = ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lost(LOSS_RING_FULL);
		return;
	}
	event->type = type;
	event->process_number = process->number;
	event->tgid = process->tgid;
	event->tid = tid;
	event->cgroup_id = process->cgroup_id;
	event->time_ns = ktime_get_ns();
	event->value[0] = first;
	event->value[1] = second;
	copy_comm(event->comm, process->comm);
	ringbuf_submit(event, 0);
}

INLINE struct process *process_of(struct thread *thread)
{
	struct process *process = map_lookup(&processes, &thread->process_slot);

	if (!process || process->number != thread->process_number)
		return NULL;
	return process;
}

/* The slot of a process, made at its first call. */
INLINE struct process *process_get(__u32 tgid, __u32 *slot)
{
	struct process *process;
	__u32 zero = 0;
	__u32 *known = map_lookup(&process_slots, &tgid);

	if (known) {
		*slot = *known;
		return map_lookup(&processes, slot);
	}
	__u64 *last = map_lookup(&last_process_number, &zero);

	if (!last)
		return NULL;
	__u32 number = (__u32)ADD(*last, 1) + 1;
	__u64 cgroup_id = get_current_cgroup_id(), quota = quota_key(cgroup_id, number);

	if (!quota_take(quota, QUOTA_PROCESSES))
		return NULL;
	if (map_pop(&free_slots, slot)) {
		quota_give(quota, QUOTA_PROCESSES);
		lost(LOSS_PROCESSES_FULL);
		return NULL;
	}
	process = map_lookup(&processes, slot);
	if (!process)
		return NULL;
	/*
	 * The agent left the slot zeroed. It is complete, number included, before
	 * the table names it: another thread may use it at once.
	 */
	process->tgid = tgid;
	process->cgroup_id = cgroup_id;
	process->quota = quota;
	process->slot = *slot;
	process->rows[QUOTA_PROCESSES] = 1;
	process->first_call_ns = ktime_get_ns();
	process->next_stream = STREAM_FIRST;
	get_current_comm(process->comm, sizeof(process->comm));
	process->flags = map_lookup(&seen_late, &tgid) ? PROCESS_SEEN_LATE : 0;
	process->number = number;
	if (map_update(&process_slots, &tgid, slot, UPDATE_NOEXIST)) {
		/* Another thread of this process was first, or the table is full. */
		process->number = 0;
		quota_give(quota, QUOTA_PROCESSES);
		if (map_push(&free_slots, slot, 0))
			lost(LOSS_FREE_SLOTS);
		known = map_lookup(&process_slots, &tgid);
		if (!known) {
			lost(LOSS_PROCESSES_FULL);
			return NULL;
		}
		*slot = *known;
		return map_lookup(&processes, slot);
	}
	emit(EVENT_PROCESS_FIRST_CALL, process, tgid, 0, 0);
	return process;
}

/* Make the row of a thread, at its first call. */
ONCE int thread_start(__u64 id)
{
	__u32 tid = (__u32)id, zero = 0, slot = 0;
	struct thread *blank = map_lookup(&zero_thread, &zero);
	struct process *process = process_get(id >> 32, &slot);
	struct thread *thread;

	if (!process || !blank)
		return 0;
	if (!charge(process, QUOTA_THREADS))
		return 0;
	if (map_update(&threads, &tid, blank, UPDATE_NOEXIST)) {
		refund(process, QUOTA_THREADS);
		lost(LOSS_THREADS_FULL);
		return 0;
	}
	thread = map_lookup(&threads, &tid);
	if (!thread)
		return 0;
	thread->process_number = process->number;
	thread->process_slot = slot;
	thread->tgid = id >> 32;
	ADD(process->threads, 1);
	return 0;
}

/* What a copy between devices put on the other one is submitted. */
INLINE void peer_submitted(struct process *process, struct thread *thread)
{
	if (thread->open_second)
		idle_submitted(device_at(process, (__u32)thread->open_second - 1));
	thread->open_second = 0;
}

/* The open call will not return: undo what its entry began. */
INLINE void thread_abandon(struct process *process, struct thread *thread, __u64 now_ns)
{
	if (thread->open_flags & OPEN_SUBMITTED) {
		idle_submitted(device_at(process, thread->open_place));
	}
	if (COOKIE_FIELD(thread->open_cookie, SUBMITS) &&
	    COOKIE_FIELD(thread->open_cookie, CONTEXT_ARG))
		peer_submitted(process, thread);
	if (thread->open_flags & OPEN_BLOCKED)
		blocked_leave(process, now_ns - process->first_call_ns);
	thread->open_flags = 0;
	thread->open_sp = 0;
}

/* True when this is the last thread of its process to exit, as far as Linux tells. */
INLINE bool last_thread(void)
{
	__u64 task = get_current_task(), signal = 0;
	__s32 live = 1;

	if (!task_signal_offset)
		return false;
	if (probe_read_linux(&signal, sizeof(signal), (void *)(task + task_signal_offset)))
		return false;
	if (probe_read_linux(&live, sizeof(live), (void *)(signal + signal_live_offset)))
		return false;
	/* do_exit() lowers signal->live before the tracepoint (linux/kernel/exit.c). */
	return live == 0;
}

#endif
