/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Memory by handles (cuMemCreate): freed by the last release and the last unmap together. */
#ifndef GPUGAUGE_HANDLE_H
#define GPUGAUGE_HANDLE_H

#include "memory.bpf.h"

#define RANGES_PER_UNMAP 32
#define HANDLE_REFERENCE 1ull
#define HANDLE_MAP (1ull << 32)

/* Change {maps, references} of a handle; the last of both frees it, and 1 is returned. */
ONCE int handle_change(__u32 slot, __u32 process_number, __u64 handle, __u64 change)
{
	struct allocation_key key = allocation_key_of(process_number, FAMILY_VIRTUAL, handle);
	struct allocation *row = map_lookup(&allocations, &key);

	if (!row) {
		lost(LOSS_POINTER_UNKNOWN);
		return 0;
	}
	__u64 *word = (__u64 *)&row->references;

	if (ADD(*word, change) + change)
		return 0;
	struct allocation copy = *row;

	if (!map_delete(&allocations, &key))
		refund_slot(slot, process_number, QUOTA_ALLOCATIONS);
	memory_drop(process_number, &copy);
	return 1;
}

/* At entry. What the last release frees is kept in the thread, as for a free. */
INLINE void release_begins(struct process *process, struct thread *thread)
{
	struct allocation_key key =
		allocation_key_of(process->number, FAMILY_VIRTUAL, thread->open_pointer);
	struct allocation *row = map_lookup(&allocations, &key);
	__u32 place = PLACE_UNKNOWN;

	thread->open_second = 0;
	if (row) {
		thread->open_bytes = row->bytes;
		thread->open_context = row->context;
		place = row->place;
	}
	if (handle_change(process->slot, process->number, thread->open_pointer, -HANDLE_REFERENCE))
		thread->open_second = FREED(place, FAMILY_VIRTUAL);
}

INLINE void release_failed(struct process *process, struct thread *thread)
{
	__u32 place = thread->open_place;

	if (!thread->open_second) {
		handle_change(process->slot, process->number, thread->open_pointer,
			      HANDLE_REFERENCE);
		return;
	}
	free_returned(thread);
	free_failed(process, thread);
	thread->open_place = place;
}

INLINE void range_mapped(struct process *process, struct thread *thread)
{
	struct allocation_key key =
		allocation_key_of(process->number, FAMILY_RANGE, thread->open_pointer);
	struct allocation range = {
		.bytes = thread->open_bytes,
		.handle = thread->open_second,
		.family = FAMILY_RANGE,
	};

	if (allocation_put(process, &key, &range))
		handle_change(process->slot, process->number, thread->open_second, HANDLE_MAP);
}

/* At entry of an unmap of [start, start + bytes): one or several mapped ranges. */
ONCE int range_unmapped(__u32 slot, __u32 process_number, __u64 start, __u64 bytes)
{
	__u64 at = start;

	for (int i = 0; i < RANGES_PER_UNMAP; i++) {
		struct allocation_key key = allocation_key_of(process_number, FAMILY_RANGE, at);
		struct allocation *range = map_lookup(&allocations, &key);

		if (!range) {
			lost(LOSS_POINTER_UNKNOWN);
			return 0;
		}
		__u64 handle = range->handle, length = range->bytes;

		if (!map_delete(&allocations, &key))
			refund_slot(slot, process_number, QUOTA_ALLOCATIONS);
		handle_change(slot, process_number, handle, -HANDLE_MAP);
		at += length;
		if (at >= start + bytes || !length)
			return 0;
	}
	lost(LOSS_POINTER_UNKNOWN);
	return 0;
}

#endif
