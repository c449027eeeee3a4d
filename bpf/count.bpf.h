/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Counting: plain adds into the row of this thread and place. */
#ifndef GPUGAUGE_COUNT_H
#define GPUGAUGE_COUNT_H

#include "args.bpf.h"
#include "process.bpf.h"

/* CUresult, cuda.h */
#define CUDA_ERROR_NOT_READY 600

/* A launch or copy is held to have waited beyond this when nothing was learned yet. */
#define ISSUE_DEFAULT_NS 10000
/* A launch that is not the queue's fault, but took this many issue costs. */
#define LAUNCH_OTHER_TIMES 10

/* An open call that does not wait by nature is held to wait beyond this: state/opened.py. */
#define OPEN_WAITS_NS 1000000

#define COUNTS_LANES (sizeof(struct counts) / sizeof(__u64))

/* floor(log2(value)), value > 0. Five steps: a loop over bits costs more. */
INLINE __u32 log2_floor(__u64 value)
{
	__u32 log2 = 0;

	if (value >> 32) {
		value >>= 32;
		log2 += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log2 += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log2 += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log2 += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log2 += 2;
	}
	return log2 + (value >> 1 ? 1 : 0);
}

/* Bucket i holds durations up to 4^i x 1024 ns; the last one all that is longer. */
INLINE __u32 duration_bucket(__u64 duration_ns)
{
	__u32 log2;

	if (duration_ns <= (1 << HISTOGRAM_FIRST_LOG2))
		return 0;
	log2 = log2_floor(duration_ns - 1) + 1 - HISTOGRAM_FIRST_LOG2;
	log2 = (log2 + HISTOGRAM_STEP_LOG2 - 1) / HISTOGRAM_STEP_LOG2;
	return log2 < HISTOGRAM_BUCKETS ? log2 : HISTOGRAM_BUCKETS - 1;
}

/* Two buckets an octave from 512 ns: [2^n, 1.5 x 2^n) and [1.5 x 2^n, 2^(n+1)). */
INLINE __u32 issue_bucket(__u64 duration_ns)
{
	__u32 log2, bucket;

	if (duration_ns < (1 << ISSUE_FIRST_LOG2))
		return 0;
	log2 = log2_floor(duration_ns);
	bucket = (log2 - ISSUE_FIRST_LOG2) * ISSUE_STEPS_PER_OCTAVE +
		 (duration_ns >> (log2 - 1) & 1);
	return bucket < ISSUE_BUCKETS ? bucket : ISSUE_BUCKETS - 1;
}

/* The row of this thread at a place, made at the first call there. */
INLINE struct counts *counts_of(struct process *process, struct thread *thread, __u32 tid,
				__u32 place)
{
	struct counts_key key = {.id = tid, .place = place};
	struct counts_row *row = map_lookup(&thread_counts, &key);
	__u32 zero = 0;

	if (LIKELY(row))
		return &row->counts;
	row = map_lookup(&zero_counts, &zero);
	if (!row || !charge(process, QUOTA_COUNTS))
		return NULL;
	if (map_update(&thread_counts, &key, row, UPDATE_NOEXIST)) {
		refund(process, QUOTA_COUNTS);
		lost(LOSS_COUNTS_FULL);
		return NULL;
	}
	row = map_lookup(&thread_counts, &key);
	if (!row)
		return NULL;
	row->process_number = thread->process_number;
	thread->places_used |= 1u << place;
	return &row->counts;
}

/* The host waited `waited_ns` of a call that took `duration_ns`. */
INLINE void count_blocked(struct counts *counts, __u32 cause, __u64 waited_ns, __u64 duration_ns)
{
	BOUNDED(cause);
	if (cause >= CAUSE_COUNT)
		return;
	counts->blocked_ns[cause] += waited_ns;
	__u32 bucket = duration_bucket(duration_ns);

	BOUNDED(bucket);
	if (bucket < HISTOGRAM_BUCKETS)
		counts->histogram[cause][bucket] += 1;
}

/*
 * A low quantile (about 1/17) of the durations of an operation: down by 1/16
 * when shorter, up by 1/256 when longer. Racy plain stores: an estimate.
 */
INLINE __u64 learn_issue(struct process *process, __u32 slot, __u64 duration_ns, __u64 limit_ns)
{
	__u64 known = process->issue_ns[slot];

	if (!known)
		known = duration_ns;
	else if (duration_ns < known)
		known -= known >> 4;
	else
		known += (known >> 8) + 1;
	if (known > limit_ns)
		known = limit_ns;
	process->issue_ns[slot] = known;
	return known;
}

/* Add the row of an ended thread to its process. Returns 0 always. */
ONCE int counts_merge(__u32 slot, __u32 process_number, __u32 tid, __u32 place)
{
	struct process *process = map_lookup(&processes, &slot);
	struct counts_key from_key = {.id = tid, .place = place};
	struct counts_key to_key = {.id = process_number, .place = place};
	struct counts_row *from = map_lookup(&thread_counts, &from_key);
	struct counts_row *to = map_lookup(&process_counts, &to_key);
	__u32 zero = 0;

	if (!from || !process || process->number != process_number)
		return 0;
	if (!to) {
		to = map_lookup(&zero_counts, &zero);
		if (!to || !charge(process, QUOTA_PROCESS_COUNTS))
			return 0;
		/* Another thread of the process may have made it: then this fails, harmlessly. */
		if (map_update(&process_counts, &to_key, to, UPDATE_NOEXIST))
			refund(process, QUOTA_PROCESS_COUNTS);
		to = map_lookup(&process_counts, &to_key);
		if (!to) {
			lost(LOSS_COUNTS_FULL);
			return 0;
		}
		to->process_number = process_number;
	}
	/* A reader that meets the row from here on leaves it out. */
	WRITE_ONCE(from->merging, 1);
	__u64 *add = (__u64 *)&from->counts, *sum = (__u64 *)&to->counts;

	for (__u32 i = 0; i < COUNTS_LANES; i++)
		if (add[i])
			ADD(sum[i], add[i]);
	if (!map_delete(&thread_counts, &from_key))
		refund(process, QUOTA_COUNTS);
	return 0;
}

INLINE __u32 cause_of(__u32 slot)
{
	if (slot == SLOT_SYNCHRONIZE)
		return CAUSE_SYNCHRONIZE;
	if (slot >= SLOT_COPY_HTOD && slot <= SLOT_SET)
		return CAUSE_COPY;
	if (slot == SLOT_ALLOCATE || slot == SLOT_FREE)
		return CAUSE_ALLOCATION;
	if (slot == SLOT_LAUNCH || slot == SLOT_GRAPH_LAUNCH)
		return CAUSE_LAUNCH_QUEUE;
	return CAUSE_COUNT;
}

/*
 * A thread died in a call. It waited all that time, and no return will tell. The
 * call is not counted, because it did not return; its wait is, as while it was
 * open.
 */
INLINE void count_died_inside(struct process *process, struct thread *thread, __u32 tid,
			      __u64 now_ns)
{
	__u64 entry_ns = thread->open_entry_ns, duration_ns = now_ns - entry_ns;
	__u32 slot = thread->open_direction ?: COOKIE_FIELD(thread->open_cookie, SLOT);
	bool blocks = COOKIE_FIELD(thread->open_cookie, BLOCKS);
	__u32 place = thread->open_place, cause = cause_of(slot);
	struct counts *counts;

	if (cause >= CAUSE_COUNT || thread->open_flags & OPEN_CAPTURED ||
	    (!blocks && duration_ns < OPEN_WAITS_NS))
		return;
	counts = counts_of(process, thread, tid, place < PLACE_COUNT ? place : PLACE_UNKNOWN);
	if (counts)
		count_blocked(counts, cause, duration_ns, duration_ns);
	if (!blocks)
		blocked_waited(process, entry_ns - process->first_call_ns,
			       now_ns - process->first_call_ns);
}

/* A thread ended: its rows go to the process. */
INLINE void thread_end(__u32 tid, bool died)
{
	struct thread *thread = map_lookup(&threads, &tid);
	struct process *process;

	if (!thread)
		return;
	process = process_of(thread);
	if (process) {
		if (thread->open_sp) {
			__u64 now_ns = ktime_get_ns();

			if (died)
				count_died_inside(process, thread, tid, now_ns);
			thread_abandon(process, thread, now_ns);
		}
		for (__u32 place = 0; place < PLACE_COUNT; place++)
			if (thread->places_used & (1u << place))
				counts_merge(thread->process_slot, thread->process_number, tid,
					     place);
		ADD(process->hits, thread->hits);
		SUB(process->threads, 1);
	}
	if (!map_delete(&threads, &tid) && process)
		refund(process, QUOTA_THREADS);
}

/* A process ended, or became another program. */
INLINE void process_end(__u32 tgid, __u32 flags, __u32 event)
{
	__u32 *slot = map_lookup(&process_slots, &tgid);

	if (!slot)
		return;
	struct process *process = map_lookup(&processes, slot);

	if (process && process->number) {
		process->ended_ns = ktime_get_ns();
		OR(process->flags, flags);
		emit(event, process, tgid, 0, 0);
	}
	map_delete(&process_slots, &tgid);
}

#endif
