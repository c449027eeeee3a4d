/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The rows that cross between the BPF programs and Python: every struct of
 * every map. Layouts are read at load time from the BTF of the compiled object,
 * so that there is no second copy to keep true.
 */
#ifndef GPUGAUGE_GPU_H
#define GPUGAUGE_GPU_H

#include "abi.h"

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

struct slot_counts {
	__u64 calls;
	__u64 errors;
	__u64 bytes;
	__u64 duration_ns;
};

/*
 * One per thread and place, plain adds by its owner; one per process and
 * place for threads that ended. All members are __u64, so that Python sums
 * rows as lanes.
 */
struct counts {
	struct slot_counts slots[SLOT_COUNT];
	__u64 blocked_ns[CAUSE_COUNT];
	__u64 histogram[CAUSE_COUNT][HISTOGRAM_BUCKETS];
	__u64 issue_histogram[ISSUE_BUCKETS]; /* fresh launches */
	__u64 issue_sum_ns[ISSUE_BUCKETS];
	__u64 deep_launches;
	__u64 deep_ns;
	__u64 graph_launch_nodes; /* launch nodes of graphs whose nodes are known */
	__u64 graph_launches_unknown;
	__u64 launch_threads; /* grid x block, summed */
};

struct counts_key {
	__u32 id; /* thread id, or process number */
	__u32 place;
};

struct counts_row {
	__u32 process_number;
	__u32 merging; /* 1 while the thread's exit adds this row to its process */
	struct counts counts;
};

/* One device of one process: what is outstanding, and how long nothing was. */
struct device_state {
	__u64 state;	  /* {ticket:32, stream:32}; the ticket is the high half */
	__u64 ended;	  /* finished submissions */
	__u64 drained_ns; /* only ever raised */
	__u64 idle_ns;
	__u32 drained_ticket;
	__u32 contexts; /* live ones of this process here */
};

/* One per process that made a traced call; a slot of an array the agent maps. */
struct process {
	__u32 number; /* never reused; 0: free slot */
	__u32 tgid;
	__u64 cgroup_id;
	__u64 first_call_ns;
	__u64 ended_ns;
	__u32 flags;
	__u32 threads; /* live thread rows */
	__u32 next_context;
	__u32 agent_flags;	  /* as flags, but written by the agent alone */
	__u32 context_generation; /* raised when a context is made, gone, or learned of */
	__u32 contexts_live;
	__u32 sole_context; /* the only live context there is; 0: none, or several */
	__u32 sole_place;
	__u32 next_stream;
	__u32 stream_generation; /* raised when streams are made or destroyed */
	__u32 captures;		 /* streams being captured now */
	__u64 hits;		 /* of threads that ended */
	__u64 blocked_word;	 /* {start:48 in 64 ns units since first_call_ns, depth:16} */
	__u64 blocked_until_ns;	 /* covered so far; only ever raised */
	__u64 blocked_wall_ns;
	__u64 issue_ns[SLOT_COUNT]; /* learned cost of issuing one call; 0: unknown */
	struct device_state places[PLACE_COUNT];
	__u64 quota;		 /* the key of its cgroup's quota */
	__u32 slot;		 /* its own index */
	__u32 rows[QUOTA_COUNT]; /* that it holds, by kind: refunded by the agent at its end */
	char comm[LIMIT_COMM];
};

struct thread_context {
	__u64 handle;
	__u32 number; /* 0: unknown */
	__u32 place;
	__u32 generation; /* of the process's contexts, when this was looked up */
	__u32 padding;
};

/* One per thread that made a traced call; what the tick reads for open calls. */
struct thread {
	__u32 process_number;
	__u32 process_slot;
	__u32 tgid;
	__u32 places_used; /* bit per place with a counts row */
	__u64 hits;	   /* probe hits, entries and returns */
	__u64 open_sp;	   /* stack pointer at entry; 0: no open call */
	__u64 open_cookie;
	__u64 open_entry_ns;
	__u64 open_bytes; /* or threads of a launch, or a third argument */
	__u64 open_pointer;
	__u64 open_second; /* another argument that the action needs */
	__u64 state_seen;  /* device_state.state and .ended at a sync's entry */
	__u64 ended_seen;
	__u32 open_place;
	__u32 open_context;
	__u32 open_stream;
	__u32 open_flags;
	__u32 open_distance;  /* submissions since the last known drain */
	__u32 open_direction; /* slot of a copy whose struct tells its direction */
	__u32 depth;	      /* of the context stack, also beyond its limit */
	__u32 own_stream;     /* number of its per-thread stream; 0: not yet */
	struct thread_context contexts[LIMIT_CONTEXT_DEPTH];
	__u64 cached_handle; /* the explicit stream used last */
	__u32 cached_stream;
	__u32 cached_place;
	__u32 cached_generation;
	__u32 capture_stream; /* the capture this thread began last; 0: none */
	__u32 cached_context;
	__u32 own_context; /* in which own_stream is: elsewhere it is another stream */
	__u64 last_sp;	   /* of an entry-only call, to tell duplicates */
	__u64 last_cookie;
};

struct context_key {
	__u32 process_number;
	__u32 kind; /* 0 context, 1 green context */
	__u64 handle;
};

struct context {
	__u32 number; /* small, per process, from 1 */
	__u32 place;
	__u64 created_ns;
	__u64 cgroup_id;
};

struct stream_key {
	__u32 process_number;
	__u32 padding;
	__u64 handle;
};

struct stream {
	__u32 number;
	__u32 context;
	__u32 place;
};

struct capture_key {
	__u32 process_number;
	__u32 stream; /* its number */
};

/* A stream that is being captured into a graph. */
struct capture {
	__u64 launches; /* since the capture began */
	__u32 unknown;	/* 1: something with an unknown number of launches */
	__u32 tid;	/* of the thread that began it */
};

/* A recorded CUDA event: what had been submitted when it was recorded. */
struct event_mark {
	__u32 ticket;
	__u32 stream; /* STREAM_MIXED: cannot tell */
	__u32 place;
	__u32 padding;
};

/* A graph or an executable graph. */
struct graph {
	__u64 launches; /* launch nodes */
	__u32 unknown;	/* 1: cannot be known */
	__u32 executable;
};

struct allocation_key {
	__u32 process_number;
	__u32 family;
	__u64 address;
};

struct allocation {
	__u64 bytes;
	__u32 place;
	__u32 context;
	__u32 references; /* virtual-memory handles: handles held, */
	__u32 maps;	  /* and address ranges mapped */
	__u64 handle;	  /* mapped range: the handle behind it */
	__u32 family;
	__u32 padding;
};

struct memory_key {
	__u32 process_number;
	__u16 context; /* number; 0: unknown */
	__u16 family;
};

/* Requested memory of one process, context and family. */
struct memory {
	__u64 requested_bytes;
	__u64 peak_bytes;
	__u64 allocations;
	__u64 frees;
	__u64 failures;
	__u64 failed_bytes; /* size of the last failed allocation */
	__u64 untracked;    /* allocations that found no row: the sum is a lower bound */
	__u32 place;
	__u32 dead; /* 1: the context is gone, and its memory with it */
};

struct device_key {
	__u32 process_number;
	__u32 ordinal;
};

struct device_identity {
	__u8 uuid[16];
	__u64 primary;	  /* handle of the primary context while it is retained */
	__u32 version;	  /* 1: the parent under MIG, 2: the instance; 0: no UUID yet */
	__u32 references; /* retains of the primary context */
};

struct error_key {
	__u32 process_number;
	__u16 place;
	__u16 slot;
	__u32 code; /* CUresult; whatever the library returned */
};

struct event {
	__u32 type;
	__u32 process_number;
	__u32 tgid;
	__u32 tid;
	__u64 cgroup_id;
	__u64 time_ns;
	__u64 value[2];
	char comm[LIMIT_COMM];
};

/*
 * What one cgroup holds, by the id of the cgroup; on cgroup v1, where all have
 * the id of the root, by process: QUOTA_OF_PROCESS and its number. Rows only
 * the programs change; what ended processes held is given back by the agent in
 * a row of its own, so that neither overwrites the other's.
 */
struct quota {
	__u64 rows[QUOTA_COUNT];
	__u64 refused[QUOTA_COUNT]; /* updates that were not made */
	__u64 ring_word;	    /* {second:32, events:32} */
	__u64 ring_refused;
};

struct quota_refund {
	__u64 rows[QUOTA_COUNT];
};

#define QUOTA_OF_PROCESS (1ull << 63)

/* Sizes above these are lies or bugs; 0: not known, nothing is refused. */
struct size_limits {
	__u64 device_bytes; /* memory of the largest device */
	__u64 host_bytes;
};

struct losses {
	__u64 value[LOSS_COUNT];
};

#endif
