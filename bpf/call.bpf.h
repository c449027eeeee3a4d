/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What a call that is over adds to the counts: calls, bytes, errors, and how long it blocked. */
#ifndef GPUGAUGE_CALL_H
#define GPUGAUGE_CALL_H

#include "graph.bpf.h"

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

#endif
