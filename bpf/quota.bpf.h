/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What one cgroup may take of each map, and of the ring buffer: a tenant that
 * floods them is refused and counted, and nobody else's rows are touched. Only
 * inserts and deletes pay for it, never a call whose rows are there.
 */
#ifndef GPUGAUGE_QUOTA_H
#define GPUGAUGE_QUOTA_H

#include "maps.bpf.h"

/* The id of the root cgroup: of processes in no cgroup of v2 (kernfs, inode 1). */
#define ROOT_CGROUP 1

INLINE __u64 quota_key(__u64 cgroup_id, __u32 process_number)
{
	return cgroup_id > ROOT_CGROUP ? cgroup_id : QUOTA_OF_PROCESS | process_number;
}

INLINE __u32 quota_limit(__u32 kind)
{
	switch (kind) {
	case QUOTA_PROCESSES:
	case QUOTA_PROCESS_COUNTS:
		return LIMIT_PROCESSES / LIMIT_QUOTA_SHARE;
	case QUOTA_THREADS:
		return LIMIT_THREADS / LIMIT_QUOTA_SHARE;
	case QUOTA_COUNTS:
		return LIMIT_COUNTS / LIMIT_QUOTA_SHARE;
	case QUOTA_STREAMS:
		return LIMIT_STREAMS / LIMIT_QUOTA_SHARE;
	case QUOTA_EVENTS:
		return LIMIT_EVENTS / LIMIT_QUOTA_SHARE;
	case QUOTA_GRAPHS:
		return LIMIT_GRAPHS / LIMIT_QUOTA_SHARE;
	case QUOTA_CAPTURES:
		return LIMIT_CAPTURES / LIMIT_QUOTA_SHARE;
	case QUOTA_ALLOCATIONS:
		return LIMIT_ALLOCATIONS / LIMIT_QUOTA_SHARE;
	case QUOTA_ERRORS:
		return LIMIT_ERRORS / LIMIT_QUOTA_SHARE;
	default:
		return LIMIT_CONTEXTS / LIMIT_QUOTA_SHARE;
	}
}

/* Of one process; ~0: the cgroup's limit is all. */
INLINE __u32 quota_process_limit(__u32 kind)
{
	switch (kind) {
	case QUOTA_CONTEXTS:
		return LIMIT_PROCESS_CONTEXTS;
	case QUOTA_GRAPHS:
		return LIMIT_PROCESS_GRAPHS;
	default:
		return ~0u;
	}
}

INLINE struct quota *quota_get(__u64 key)
{
	struct quota *row = map_lookup(&quotas, &key);
	struct quota fresh = {};

	if (row)
		return row;
	map_update(&quotas, &key, &fresh, UPDATE_NOEXIST);
	return map_lookup(&quotas, &key);
}

/* Returns 1 when the cgroup may hold one more row of a kind, and charges it. */
ONCE int quota_take(__u64 key, __u32 kind)
{
	struct quota *row = quota_get(key);
	__s64 limit = quota_limit(kind), held;

	if (!row || kind >= QUOTA_COUNT)
		goto refuse;
	held = ADD(row->rows[kind], 1);
	if (held < limit)
		return 1;
	struct quota_refund *back = map_lookup(&quota_refunds, &key);

	if (back && held - (__s64)READ_ONCE(back->rows[kind]) < limit)
		return 1;
	SUB(row->rows[kind], 1);
	ADD(row->refused[kind], 1);
refuse:
	lost(LOSS_QUOTA);
	return 0;
}

ONCE int quota_give(__u64 key, __u32 kind)
{
	struct quota *row = map_lookup(&quotas, &key);

	if (row && kind < QUOTA_COUNT)
		SUB(row->rows[kind], 1);
	return 0;
}

/* Returns 1 when a process may hold one more row, and charges it. */
ONCE int charge_slot(__u32 slot, __u32 kind)
{
	struct process *process = map_lookup(&processes, &slot);

	if (!process || kind >= QUOTA_COUNT)
		return 0;
	if (ADD(process->rows[kind], 1) < quota_process_limit(kind)) {
		if (quota_take(process->quota, kind))
			return 1;
	} else {
		struct quota *row = quota_get(process->quota);

		if (row)
			ADD(row->refused[kind], 1);
		lost(LOSS_QUOTA);
	}
	SUB(process->rows[kind], 1);
	return 0;
}

ONCE int refund_slot(__u32 slot, __u32 process_number, __u32 kind)
{
	struct process *process = map_lookup(&processes, &slot);

	if (!process || process->number != process_number || kind >= QUOTA_COUNT)
		return 0;
	SUB(process->rows[kind], 1);
	quota_give(process->quota, kind);
	return 0;
}

INLINE bool charge(struct process *process, __u32 kind)
{
	return charge_slot(process->slot, kind);
}

INLINE void refund(struct process *process, __u32 kind)
{
	refund_slot(process->slot, process->number, kind);
}

/* Returns 1 when the cgroup may send one more event in this second. */
ONCE int ring_take(__u64 key)
{
	struct quota *row = quota_get(key);
	__u64 second = ktime_get_ns() / 1000000000;

	if (!row)
		goto refuse;
	for (int i = 0; i < STATE_TRIES; i++) {
		__u64 old = READ_ONCE(row->ring_word), next = old + 1;

		if (old >> 32 != (__u32)second)
			next = second << 32 | 1;
		else if ((__u32)old >= LIMIT_EVENTS_A_SECOND)
			break;
		if (CAS(row->ring_word, old, next) == old)
			return 1;
	}
	ADD(row->ring_refused, 1);
refuse:
	lost(LOSS_RING_LIMITED);
	return 0;
}

/* Sizes below need no look at the limits. */
#define SIZE_PLAUSIBLE_LOG2 32

/*
 * More bytes than there is memory are a lie or a bug: counted as refused, and
 * 0. Only what lies on a device alone cannot exceed it.
 */
ONCE __u64 size_believed(__u64 bytes, __u32 family)
{
	__u32 zero = 0;
	struct size_limits *limits;

	if (!(bytes >> SIZE_PLAUSIBLE_LOG2))
		return bytes;
	limits = map_lookup(&size_limits, &zero);
	if (!limits || !limits->device_bytes || !limits->host_bytes)
		return bytes;
	__u64 most = limits->device_bytes;

	if (family != FAMILY_DEVICE && family != FAMILY_POOL && family != FAMILY_ARRAY)
		most += limits->host_bytes;
	if (bytes <= most)
		return bytes;
	lost(LOSS_SIZE_REFUSED);
	return 0;
}

#endif
