/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Blocked wall time: time in which at least one thread of a process waits.
 *
 * One word holds {start:48 in 64 ns units, depth:16}. Two words, one for the
 * depth and one for the start, race: tests/model shows it. Times are relative
 * to the process's first call, so that 48 bits last 208 days of its life.
 */
#ifndef GPUGAUGE_BLOCKED_H
#define GPUGAUGE_BLOCKED_H

#include "idle.bpf.h"

#define BLOCKED_UNIT_LOG2 6
#define BLOCKED_DEPTH_BITS 16
#define BLOCKED_DEPTH(word) ((word) & ((1ull << BLOCKED_DEPTH_BITS) - 1))
#define BLOCKED_START_NS(word) (((word) >> BLOCKED_DEPTH_BITS) << BLOCKED_UNIT_LOG2)

INLINE __u64 blocked_word(__u64 at_ns)
{
	/* Rounded up: the wait is never made longer than it was. */
	__u64 units = (at_ns + (1 << BLOCKED_UNIT_LOG2) - 1) >> BLOCKED_UNIT_LOG2;

	return (units << BLOCKED_DEPTH_BITS) | 1;
}

/* Add [start, end] where it is not covered yet. */
INLINE void blocked_cover(struct process *process, __u64 start_ns, __u64 end_ns)
{
	for (int i = 0; i < STATE_TRIES; i++) {
		__u64 until_ns = READ_ONCE(process->blocked_until_ns);
		__u64 from_ns = until_ns > start_ns ? until_ns : start_ns;

		if (end_ns <= from_ns)
			return;
		if (CAS(process->blocked_until_ns, until_ns, end_ns) == until_ns) {
			ADD(process->blocked_wall_ns, end_ns - from_ns);
			return;
		}
	}
}

/* A call that waits by nature begins. False: not entered, and not to be left. */
INLINE bool blocked_enter(struct process *process, __u64 at_ns)
{
	for (int i = 0; i < STATE_TRIES; i++) {
		__u64 old = READ_ONCE(process->blocked_word);
		__u64 next = BLOCKED_DEPTH(old) ? old + 1 : blocked_word(at_ns);

		if (CAS(process->blocked_word, old, next) == old)
			return true;
	}
	return false;
}

/* It ended. The last one out adds the time since the first came in. */
INLINE void blocked_leave(struct process *process, __u64 at_ns)
{
	__u64 old = SUB(process->blocked_word, 1);

	if (BLOCKED_DEPTH(old) == 1)
		blocked_cover(process, BLOCKED_START_NS(old), at_ns);
}

/*
 * A call that turned out to have waited, known only at its end: added where no
 * thread waits by nature now. A lower bound.
 */
INLINE void blocked_waited(struct process *process, __u64 start_ns, __u64 end_ns)
{
	if (BLOCKED_DEPTH(READ_ONCE(process->blocked_word)) == 0)
		blocked_cover(process, start_ns, end_ns);
}

#endif
