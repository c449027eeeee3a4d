/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Contexts and devices: what a call that returned says about them. CUDA's own
 * words on each call: cuda.h, sections "Context Management", "Primary Context
 * Management" and "Green Contexts".
 */
#ifndef GPUGAUGE_CONTEXT_H
#define GPUGAUGE_CONTEXT_H

#include "size.bpf.h"
#include "where.bpf.h"

INLINE __u32 place_of_ordinal(__u64 ordinal)
{
	return (__u32)ordinal < PLACE_UNKNOWN ? (__u32)ordinal : PLACE_UNKNOWN;
}

/* Replace the top of the thread's stack, or make it one deep. */
INLINE void context_set_top(struct process *process, struct thread *thread, __u64 handle)
{
	struct context *row = context_get(process, CONTEXT_PLAIN, handle);

	if (thread->depth == 0)
		thread->depth = 1;
	if (thread->depth > LIMIT_CONTEXT_DEPTH)
		return;
	__u32 top = (thread->depth - 1) & (LIMIT_CONTEXT_DEPTH - 1);

	thread->contexts[top].handle = handle;
	thread->contexts[top].number = row ? row->number : 0;
	thread->contexts[top].place = row ? row->place : PLACE_UNKNOWN;
	thread->contexts[top].generation = READ_ONCE(process->context_generation);
}

INLINE void context_push(struct process *process, struct thread *thread, __u64 handle)
{
	thread->depth += 1;
	if (thread->depth > LIMIT_CONTEXT_DEPTH)
		lost(LOSS_DEPTH);
	context_set_top(process, thread, handle);
}

INLINE void context_pop(struct thread *thread)
{
	if (thread->depth)
		thread->depth -= 1;
}

/* A context was made, by create or by the first retain: nothing is outstanding in it. */
INLINE struct context *context_made(struct process *process, __u32 kind, __u64 handle, __u32 place)
{
	struct context_key key = {
		.process_number = process->number,
		.kind = kind,
		.handle = handle,
	};

	struct context *row = map_lookup(&contexts, &key);

	/* Met before it was made, it keeps its number; else what is there was destroyed unseen. */
	if (row && row->place != PLACE_UNKNOWN && !map_delete(&contexts, &key))
		refund(process, QUOTA_CONTEXTS);
	row = context_get(process, kind, handle);
	if (!row)
		return NULL;
	row->place = place;
	if (ADD(process->contexts_live, 1) == 0) {
		process->sole_place = place;
		process->sole_context = row->number;
	} else {
		process->sole_context = 0;
	}
	ADD(process->context_generation, 1);
	struct device_state *dev = device_at(process, place);

	if (ADD(dev->contexts, 1) == 0 && STATE_TICKET(READ_ONCE(dev->state)) == 0)
		raise_time(&dev->drained_ns, ktime_get_ns());
	emit(EVENT_CONTEXT, process, 0, handle, place);
	return row;
}

/* Its memory is gone with it: rows of the context are closed. */
INLINE void context_memory_gone(struct process *process, __u32 number)
{
	for (__u32 family = 0; family < FAMILY_COUNT; family++) {
		struct memory_key key = {
			.process_number = process->number,
			.context = number,
			.family = family,
		};
		struct memory *row = map_lookup(&memories, &key);

		if (row) {
			row->dead = 1;
			row->requested_bytes = 0;
		}
	}
}

/*
 * At entry of a destroy: which context it is, {place:32, number:32}; 0: not
 * known. Once destroyed, its handle may come back from another thread's create.
 */
INLINE __u64 context_named(struct process *process, __u32 kind, __u64 handle)
{
	struct context *row = context_find(process->number, kind, handle);

	return row ? ((__u64)row->place << 32) | row->number : 0;
}

INLINE void context_gone(struct process *process, __u32 kind, __u64 handle, __u64 named)
{
	struct context_key key = {
		.process_number = process->number,
		.kind = kind,
		.handle = handle,
	};
	struct context *row = map_lookup(&contexts, &key);
	__u32 number = (__u32)named, place = named >> 32;

	if (!number)
		return;
	context_memory_gone(process, number);
	if (row && row->number == number && !map_delete(&contexts, &key))
		refund(process, QUOTA_CONTEXTS);
	struct device_state *dev = device_at(process, place);

	if (dev->contexts)
		SUB(dev->contexts, 1);
	if (process->contexts_live)
		SUB(process->contexts_live, 1);
	process->sole_context = 0;
	ADD(process->context_generation, 1);
}

/* cuCtxDestroy pops the context where it is current on the calling thread (cuda.h). */
INLINE void context_destroyed(struct process *process, struct thread *thread)
{
	__u32 number = (__u32)thread->open_second, top, place;

	context_top(process, thread, &top, &place);
	context_gone(process, CONTEXT_PLAIN, thread->open_pointer, thread->open_second);
	if (number && top == number)
		context_pop(thread);
}

INLINE struct device_identity *device_get(struct process *process, __u32 ordinal)
{
	struct device_key key = {.process_number = process->number, .ordinal = ordinal};
	struct device_identity *row = map_lookup(&devices, &key);
	struct device_identity fresh = {};

	if (row)
		return row;
	if (!charge(process, QUOTA_DEVICES))
		return NULL;
	if (!map_update(&devices, &key, &fresh, UPDATE_NOEXIST))
		return map_lookup(&devices, &key);
	refund(process, QUOTA_DEVICES);
	row = map_lookup(&devices, &key);
	if (!row)
		lost(LOSS_CONTEXTS_FULL);
	return row;
}

INLINE void primary_retained(struct process *process, __u64 handle, __u32 ordinal)
{
	struct device_identity *device = device_get(process, ordinal);

	if (!device)
		return;
	if (ADD(device->references, 1) == 0 || device->primary != handle) {
		device->primary = handle;
		context_made(process, CONTEXT_PLAIN, handle, place_of_ordinal(ordinal));
	}
}

INLINE void primary_released(struct process *process, __u32 ordinal, bool reset)
{
	struct device_identity *device = device_get(process, ordinal);

	if (!device || !device->references)
		return;
	if (!reset && SUB(device->references, 1) != 1)
		return;
	/* A reset destroys what the context held, whoever retains it (cuda.h). */
	context_gone(process, CONTEXT_PLAIN, device->primary,
		     context_named(process, CONTEXT_PLAIN, device->primary));
	device->primary = 0;
	device->references = 0;
}

INLINE void device_uuid(struct process *process, __u64 at, __u32 ordinal, __u32 version)
{
	struct device_identity *device = device_get(process, ordinal);
	__u64 halves[2];

	if (!device || device->version >= version)
		return;
	if (!read_user(halves, sizeof(halves), at)) {
		lost(LOSS_RESULT_UNREADABLE);
		return;
	}
	__builtin_memcpy(device->uuid, halves, sizeof(device->uuid));
	device->version = version;
	emit(EVENT_DEVICE_UUID, process, 0, ordinal, version);
}

/* A handle that the call wrote where `at` points to; 0: could not be read. */
INLINE __u64 result_handle(__u64 at)
{
	__u64 handle = 0;

	if (!read_user(&handle, sizeof(handle), at))
		lost(LOSS_RESULT_UNREADABLE);
	return handle;
}

INLINE void context_created(struct process *process, struct thread *thread)
{
	__u64 handle = result_handle(thread->open_pointer);

	if (handle &&
	    context_made(process, CONTEXT_PLAIN, handle, place_of_ordinal(thread->open_second)))
		context_push(process, thread, handle);
}

INLINE void context_use(struct process *process, struct thread *thread, bool push)
{
	__u64 handle = thread->open_pointer;

	if (push)
		context_push(process, thread, handle);
	else if (handle)
		context_set_top(process, thread, handle);
	else
		context_pop(thread); /* cuCtxSetCurrent(NULL) is a pop (cuda.h) */
}

INLINE void green_created(struct process *process, struct thread *thread)
{
	__u64 handle = result_handle(thread->open_pointer);

	if (!handle ||
	    !context_made(process, CONTEXT_GREEN, handle, place_of_ordinal(thread->open_second)))
		return;
	struct device_identity *device = device_get(process, thread->open_second);

	/* It holds the primary context of its device until it is destroyed (cuda.h). */
	if (device)
		ADD(device->references, 1);
}

INLINE void green_destroyed(struct process *process, struct thread *thread)
{
	__u32 place = thread->open_second >> 32;

	if (!thread->open_second)
		return;
	context_gone(process, CONTEXT_GREEN, thread->open_pointer, thread->open_second);
	if (place < PLACE_UNKNOWN)
		primary_released(process, place, false);
}

/* cuCtxFromGreenCtx: a context handle for the same context. */
INLINE void green_to_context(struct process *process, struct thread *thread)
{
	__u64 handle = result_handle(thread->open_pointer);
	struct context *green = context_find(process->number, CONTEXT_GREEN, thread->open_second);

	if (!handle || !green)
		return;
	struct context *row = context_get(process, CONTEXT_PLAIN, handle);

	if (row) {
		row->number = green->number;
		row->place = green->place;
		ADD(process->context_generation, 1);
	}
}

#endif
