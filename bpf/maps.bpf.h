/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Every map, with its key, why this type, and who deletes its rows. All hash
 * maps are allocated in full at load: memory is known then, and no allocation
 * happens inside a traced call.
 */
#ifndef GPUGAUGE_MAPS_H
#define GPUGAUGE_MAPS_H

#include "helpers.h"

#define HASH_MAP(name, key_type, value_type, entries)                                              \
	struct {                                                                                   \
		MAP_UINT(type, MAP_TYPE_HASH);                                                     \
		MAP_UINT(max_entries, entries);                                                    \
		MAP_TYPE(key, key_type);                                                           \
		MAP_TYPE(value, value_type);                                                       \
	} name SEC(".maps")

/* By thread id: calls open now and the context stack. Deleted by the thread's exit. */
HASH_MAP(threads, __u32, struct thread, LIMIT_THREADS);

/* By thread id and place. Deleted by the thread's exit, after process_counts has it. */
HASH_MAP(thread_counts, struct counts_key, struct counts_row, LIMIT_COUNTS);

/* By process number and place: sums of ended threads. Deleted by the agent. */
HASH_MAP(process_counts, struct counts_key, struct counts_row, LIMIT_PROCESSES);

/* By thread-group id: which slot. Deleted by the process's exit or exec. */
HASH_MAP(process_slots, __u32, __u32, LIMIT_PROCESSES);

/* Thread groups that mapped a library before its probes: put in and taken out by the agent. */
HASH_MAP(seen_late, __u32, __u32, LIMIT_PROCESSES);

/* Slots; an array, so that a hit needs no hash, mapped into the agent. */
struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, LIMIT_PROCESSES);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct process);
} processes SEC(".maps");

/* Slots that are free: filled by the agent, which reaps ended processes. */
struct {
	MAP_UINT(type, MAP_TYPE_QUEUE);
	MAP_UINT(max_entries, LIMIT_PROCESSES);
	MAP_TYPE(value, __u32);
} free_slots SEC(".maps");

/* By process and handle. Deleted by destroy, and by the agent after the process. */
HASH_MAP(contexts, struct context_key, struct context, LIMIT_CONTEXTS);
HASH_MAP(streams, struct stream_key, struct stream, LIMIT_STREAMS);
HASH_MAP(event_marks, struct stream_key, struct event_mark, LIMIT_EVENTS);
HASH_MAP(graphs, struct stream_key, struct graph, LIMIT_GRAPHS);
HASH_MAP(allocations, struct allocation_key, struct allocation, LIMIT_ALLOCATIONS);

/* By process and ordinal: which device that is. Deleted by the agent. */
HASH_MAP(devices, struct device_key, struct device_identity, LIMIT_CONTEXTS);

/* By process and stream number. Deleted by the end of the capture. */
HASH_MAP(captures, struct capture_key, struct capture, LIMIT_CAPTURES);

/* By process, context and family. Deleted by the agent. */
HASH_MAP(memories, struct memory_key, struct memory, LIMIT_CONTEXTS);

/* By process, place, slot and code. Deleted by the agent. */
HASH_MAP(errors, struct error_key, __u64, LIMIT_ERRORS);

/* By cgroup: what it holds, and what of it has ended. Deleted by the agent. */
HASH_MAP(quotas, __u64, struct quota, LIMIT_QUOTAS);
HASH_MAP(quota_refunds, __u64, struct quota_refund, LIMIT_QUOTAS);

/* One element, written by the agent when it knows the devices. */
struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct size_limits);
} size_limits SEC(".maps");

/* One element: what was lost, by enum loss; one: the last process number. */
struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct losses);
} losses SEC(".maps");

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} last_process_number SEC(".maps");

/* A row of zeroes: too large for the BPF stack. Never written. */
struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct counts_row);
} zero_counts SEC(".maps");

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct thread);
} zero_thread SEC(".maps");

/* Rare things that wake the agent. */
struct {
	MAP_UINT(type, MAP_TYPE_RINGBUF);
	MAP_UINT(max_entries, LIMIT_RING_BYTES);
} events SEC(".maps");

INLINE void lost(__u32 what)
{
	__u32 zero = 0;
	struct losses *row = map_lookup(&losses, &zero);

	if (row && what < LOSS_COUNT)
		ADD(row->value[what], 1);
}

#endif
