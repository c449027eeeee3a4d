/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Where a call goes: context, place and stream. An explicit context argument
 * wins, then the context in which an explicit stream was made, then the top of
 * the thread's own context stack.
 */
#ifndef GPUGAUGE_WHERE_H
#define GPUGAUGE_WHERE_H

#include "args.bpf.h"
#include "process.bpf.h"

/* cuda.h: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD */
#define CU_STREAM_LEGACY 1
#define CU_STREAM_PER_THREAD 2
/* A stream argument of this number is inside the CUlaunchConfig at argument 1. */
#define STREAM_IN_CONFIG 15
#define CONFIG_STREAM_OFFSET 32 /* cuda.h: CUlaunchConfig.hStream */
/* Legacy streams take the numbers below STREAM_FIRST: this many contexts have one. */
#define CONTEXTS_WITH_LEGACY_STREAM (STREAM_FIRST - 1)

#define CONTEXT_PLAIN 0
#define CONTEXT_GREEN 1

struct where {
	__u32 context; /* 0: unknown */
	__u32 place;
	__u32 stream;
};

INLINE struct context *context_find(__u32 process_number, __u32 kind, __u64 handle)
{
	struct context_key key = {
		.process_number = process_number,
		.kind = kind,
		.handle = handle,
	};

	return map_lookup(&contexts, &key);
}

/*
 * The context that a call of this thread is in. The runtime may make a context
 * current before the call that made it returned, so the top is looked up again
 * whenever contexts changed. Where it is not known, and the process has one
 * context only and was seen from its start, that one it is: without a context
 * no call does anything.
 */
INLINE void context_top(struct process *process, struct thread *thread, __u32 *context,
			__u32 *place)
{
	__u32 depth = thread->depth, generation = READ_ONCE(process->context_generation);

	*context = 0;
	*place = PLACE_UNKNOWN;
	if (depth && depth <= LIMIT_CONTEXT_DEPTH) {
		struct thread_context *top =
			&thread->contexts[(depth - 1) & (LIMIT_CONTEXT_DEPTH - 1)];

		if (UNLIKELY(top->generation != generation)) {
			struct context *row =
				context_find(process->number, CONTEXT_PLAIN, top->handle);

			top->number = row ? row->number : 0;
			top->place = row ? row->place : PLACE_UNKNOWN;
			top->generation = generation;
		}
		*context = top->number;
		*place = top->place;
	}
	if (*place == PLACE_UNKNOWN && process->sole_context &&
	    !((process->flags | process->agent_flags) & PROCESS_SEEN_LATE)) {
		*context = process->sole_context;
		*place = process->sole_place;
	}
}

/* The row of a context; made with an unknown place where it was never seen. */
INLINE struct context *context_get(struct process *process, __u32 kind, __u64 handle)
{
	struct context_key key = {
		.process_number = process->number,
		.kind = kind,
		.handle = handle,
	};
	struct context *row = map_lookup(&contexts, &key);

	if (row)
		return row;
	if (!charge(process, QUOTA_CONTEXTS))
		return NULL;
	struct context fresh = {
		.number = ADD(process->next_context, 1) + 1,
		.place = PLACE_UNKNOWN,
		.created_ns = ktime_get_ns(),
		.cgroup_id = process->cgroup_id,
	};

	if (!map_update(&contexts, &key, &fresh, UPDATE_NOEXIST))
		return map_lookup(&contexts, &key);
	refund(process, QUOTA_CONTEXTS);
	row = map_lookup(&contexts, &key); /* another thread was first, or the map is full */
	if (!row)
		lost(LOSS_CONTEXTS_FULL);
	return row;
}

INLINE __u32 legacy_stream(__u32 context)
{
	/* Work of unknown contexts may be on several devices. */
	return context && context <= CONTEXTS_WITH_LEGACY_STREAM ? context : STREAM_MIXED;
}

INLINE __u32 stream_hand_out(struct process *process)
{
	return ADD(process->next_stream, 1);
}

INLINE __u32 per_thread_stream(struct process *process, struct thread *thread, __u32 context)
{
	if (!context)
		return STREAM_MIXED;
	if (!thread->own_stream || thread->own_context != context) {
		thread->own_stream = stream_hand_out(process);
		thread->own_context = context;
	}
	return thread->own_stream;
}

INLINE struct stream *stream_find(__u32 process_number, __u64 handle)
{
	struct stream_key key = {.process_number = process_number, .handle = handle};

	return map_lookup(&streams, &key);
}

/* A stream was created, or met for the first time. */
INLINE struct stream *stream_add(struct process *process, __u64 handle, __u32 context, __u32 place)
{
	struct stream_key key = {.process_number = process->number, .handle = handle};
	struct stream fresh = {
		.number = stream_hand_out(process),
		.context = context,
		.place = place,
	};

	if (map_update(&streams, &key, &fresh, UPDATE_EXIST)) {
		if (!charge(process, QUOTA_STREAMS))
			return NULL;
		if (map_update(&streams, &key, &fresh, UPDATE_NOEXIST)) {
			refund(process, QUOTA_STREAMS);
			if (map_update(&streams, &key, &fresh, UPDATE_EXIST)) {
				lost(LOSS_STREAMS_FULL);
				return NULL;
			}
		}
	}
	ADD(process->stream_generation, 1);
	return map_lookup(&streams, &key);
}

/* Resolve an explicit handle; the last one of this thread is remembered. */
INLINE void stream_explicit(struct process *process, struct thread *thread, __u64 handle,
			    struct where *where)
{
	__u32 generation = READ_ONCE(process->stream_generation);

	if (thread->cached_handle == handle && thread->cached_generation == generation) {
		where->stream = thread->cached_stream;
		where->place = thread->cached_place;
		where->context = thread->cached_context;
		return;
	}
	struct stream *row = stream_find(process->number, handle);

	if (!row)
		row = stream_add(process, handle, where->context, where->place);
	if (!row) {
		where->stream = STREAM_MIXED;
		return;
	}
	where->stream = row->number;
	if (row->context) {
		where->context = row->context;
		where->place = row->place;
	}
	if (!row->context)
		return; /* it is wherever its caller is */
	thread->cached_handle = handle;
	thread->cached_stream = where->stream;
	thread->cached_place = where->place;
	thread->cached_context = where->context;
	thread->cached_generation = READ_ONCE(process->stream_generation);
}

/* The stream handle of a call, as it was passed. False: could not be read. */
INLINE bool stream_handle(struct registers *ctx, __u32 stream_arg, __u64 *handle)
{
	*handle = 0;
	if (!stream_arg)
		return true;
	if (stream_arg == STREAM_IN_CONFIG) {
		__u64 config = register_argument(ctx, 1) + CONFIG_STREAM_OFFSET;

		return probe_read_user(handle, sizeof(*handle), (void *)config) == 0;
	}
	return argument(ctx, stream_arg, handle);
}

INLINE void where_stream(struct process *process, struct thread *thread, __u64 handle,
			 __u32 stream_default, struct where *where)
{
	bool per_thread = handle == CU_STREAM_PER_THREAD ||
			  (handle == 0 && stream_default == STREAM_PER_THREAD);

	if (per_thread)
		where->stream = per_thread_stream(process, thread, where->context);
	else if (handle <= CU_STREAM_LEGACY)
		where->stream = legacy_stream(where->context);
	else
		stream_explicit(process, thread, handle, where);
}

#endif
