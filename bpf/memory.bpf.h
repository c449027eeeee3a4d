/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Requested memory: live allocations by call. Added when the call returned,
 * removed when the free begins (after it, another thread may get the address),
 * put back if the free failed.
 */
#ifndef GPUGAUGE_MEMORY_H
#define GPUGAUGE_MEMORY_H

#include "context.bpf.h"

/* What a free took, in thread.open_second; 0: nothing. */
#define FREED(place, family) ((__u64)(place) << 32 | ((family) + 1))
#define FREED_PLACE(freed) ((__u32)((freed) >> 32))
#define FREED_FAMILY(freed) ((__u32)(freed) - 1)

/* One free for all that lives in the device's address space. */
INLINE __u32 address_space(__u32 family)
{
	return family == FAMILY_MANAGED || family == FAMILY_POOL ? FAMILY_DEVICE : family;
}

INLINE struct allocation_key allocation_key_of(__u32 process_number, __u32 family, __u64 address)
{
	struct allocation_key key = {
		.process_number = process_number,
		.family = address_space(family),
		.address = address,
	};

	return key;
}

INLINE struct memory *memory_find(__u32 process_number, __u32 context, __u32 family)
{
	struct memory_key key = {
		.process_number = process_number,
		.context = context,
		.family = family,
	};

	return map_lookup(&memories, &key);
}

INLINE struct memory *memory_get(struct process *process, __u32 context, __u32 place, __u32 family)
{
	struct memory_key key = {
		.process_number = process->number,
		.context = context,
		.family = family,
	};
	struct memory *row = map_lookup(&memories, &key);
	struct memory fresh = {.place = place};

	if (row)
		return row;
	if (!charge(process, QUOTA_MEMORIES))
		return NULL;
	if (!map_update(&memories, &key, &fresh, UPDATE_NOEXIST))
		return map_lookup(&memories, &key);
	refund(process, QUOTA_MEMORIES);
	row = map_lookup(&memories, &key);
	if (!row)
		lost(LOSS_ALLOCATIONS_FULL);
	return row;
}

INLINE void memory_add(struct memory *row, __u64 bytes)
{
	__u64 now = ADD(row->requested_bytes, bytes) + bytes;

	ADD(row->allocations, 1);
	raise_time(&row->peak_bytes, now);
}

/* False: it went with its context already. */
INLINE bool memory_drop(__u32 process_number, struct allocation *allocation)
{
	struct memory *row = memory_find(process_number, allocation->context, allocation->family);

	if (!row || row->dead)
		return false;
	SUB(row->requested_bytes, allocation->bytes);
	ADD(row->frees, 1);
	return true;
}

/* A row of allocations is written, charged if it is a new one. False: refused, or no room. */
INLINE bool allocation_put(struct process *process, struct allocation_key *key,
			   struct allocation *row)
{
	if (!map_update(&allocations, key, row, UPDATE_EXIST))
		return true;
	if (!charge(process, QUOTA_ALLOCATIONS))
		return false;
	if (!map_update(&allocations, key, row, UPDATE_NOEXIST))
		return true;
	refund(process, QUOTA_ALLOCATIONS);
	lost(LOSS_ALLOCATIONS_FULL);
	return false;
}

/* `bytes` at `address` are now requested. */
INLINE void allocation_add(struct process *process, struct thread *thread, __u32 family,
			   __u64 address, __u64 bytes, bool refused)
{
	struct allocation_key key = allocation_key_of(process->number, family, address);
	struct allocation *old = map_lookup(&allocations, &key);
	struct allocation fresh = {
		.bytes = bytes,
		.place = thread->open_place,
		.context = thread->open_context,
		.references = 1,
		.family = family,
	};
	struct memory *row = memory_get(process, thread->open_context, thread->open_place, family);

	if (!row)
		return;
	if (old && memory_drop(process->number, old))
		lost(LOSS_POINTER_REPLACED);
	if (!allocation_put(process, &key, &fresh)) {
		ADD(row->untracked, 1);
		return;
	}
	memory_add(row, bytes);
	if (refused)
		ADD(row->untracked, 1); /* its size is not in the sum */
}

INLINE void allocation_returned(struct process *process, struct thread *thread, __u32 family,
				__u32 size_kind, __u32 code)
{
	__u64 bytes = thread->open_bytes;

	if (size_kind == SIZE_PITCH) {
		__u64 pitch = 0;

		if (code == 0)
			pitch = result_handle(thread->open_second);
		bytes *= pitch;
		thread->open_bytes = bytes;
	}
	if (code) {
		struct memory *row =
			memory_get(process, thread->open_context, thread->open_place, family);

		if (row) {
			ADD(row->failures, 1);
			WRITE_ONCE(row->failed_bytes, bytes);
		}
		return;
	}
	__u64 address = result_handle(thread->open_pointer);

	thread->open_bytes = size_believed(bytes, family);
	if (address)
		allocation_add(process, thread, family, address, thread->open_bytes,
			       thread->open_bytes != bytes);
}

/* At entry of a free. What was removed is kept in the thread for a failed one. */
INLINE void free_begins(struct process *process, struct thread *thread, __u32 family)
{
	struct allocation_key key =
		allocation_key_of(process->number, family, thread->open_pointer);
	struct allocation *row;

	thread->open_second = 0;
	if (!thread->open_pointer)
		return; /* free of NULL is legal and frees nothing */
	row = map_lookup(&allocations, &key);
	if (!row) {
		lost(LOSS_POINTER_UNKNOWN);
		return;
	}
	struct allocation copy = *row;

	if (map_delete(&allocations, &key))
		return; /* another thread was faster */
	refund(process, QUOTA_ALLOCATIONS);
	memory_drop(process->number, &copy);
	thread->open_bytes = copy.bytes;
	thread->open_context = copy.context;
	thread->open_second = FREED(copy.place, copy.family);
}

/* It is counted where the memory was; what it submitted, where its stream is. */
INLINE void free_returned(struct thread *thread)
{
	if (thread->open_second)
		thread->open_place = FREED_PLACE(thread->open_second);
}

INLINE void free_failed(struct process *process, struct thread *thread)
{
	if (!thread->open_second)
		return;
	__u32 family = FREED_FAMILY(thread->open_second);
	struct memory *row = memory_find(process->number, thread->open_context, family);

	if (!row || row->dead)
		return; /* its context has gone, and its memory with it */
	allocation_add(process, thread, family, thread->open_pointer, thread->open_bytes, false);
	/* It was neither freed nor allocated again. */
	SUB(row->allocations, 1);
	SUB(row->frees, 1);
}

#endif
