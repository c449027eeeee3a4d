/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The enums and limits that the BPF programs and Python share. `make generate`
 * turns them into src/gpugauge/model/abi.py.
 *
 * Every enumerator has its value written out: they are part of recordings.
 */
#ifndef GPUGAUGE_ABI_H
#define GPUGAUGE_ABI_H

/* Limits. Maps are sized from these; docs/architecture.md gives the memory. */
enum limit {
	LIMIT_PROCESSES = 2048, /* process slots, ended ones until the agent reaped them */
	LIMIT_THREADS = 8192,
	LIMIT_COUNTS = 6144, /* thread x place rows */
	LIMIT_CONTEXTS = 8192,
	LIMIT_STREAMS = 16384,
	LIMIT_EVENTS = 16384,
	LIMIT_GRAPHS = 8192,
	LIMIT_CAPTURES = 1024,
	LIMIT_ALLOCATIONS = 45056,
	LIMIT_ERRORS = 4096,
	LIMIT_CONTEXT_DEPTH = 8, /* of a thread's context stack; beyond: unknown */
	LIMIT_LINKS = 64,	 /* libraries attached at a time */
	LIMIT_ROWS = 1024,	 /* rows of the function table */
	LIMIT_RING_BYTES = 262144,
	LIMIT_COMM = 16,
	LIMIT_QUOTAS = 2048,   /* cgroups with traced processes */
	LIMIT_QUOTA_SHARE = 8, /* one cgroup gets at most this part of each map */
	LIMIT_PROCESS_CONTEXTS = 64,
	LIMIT_PROCESS_GRAPHS = 256,
	LIMIT_EVENTS_A_SECOND = 8, /* of one cgroup, in the ring buffer */
};

/* What the rows of one cgroup are charged as: one kind a map. */
enum quota_kind {
	QUOTA_PROCESSES = 0,
	QUOTA_THREADS = 1,
	QUOTA_COUNTS = 2,
	QUOTA_PROCESS_COUNTS = 3,
	QUOTA_CONTEXTS = 4,
	QUOTA_DEVICES = 5,
	QUOTA_STREAMS = 6,
	QUOTA_EVENTS = 7,
	QUOTA_GRAPHS = 8,
	QUOTA_CAPTURES = 9,
	QUOTA_ALLOCATIONS = 10,
	QUOTA_MEMORIES = 11,
	QUOTA_ERRORS = 12,
	QUOTA_COUNT = 13,
};

/* A device as one process numbers it (its CUDA ordinal): no look-up on the hot path. */
enum place {
	PLACE_COUNT = 16, /* a power of 2: an index is masked, not compared */
	PLACE_UNKNOWN = 15,
};

/* What a call is counted as: the index into counts.slots. */
enum slot {
	SLOT_LAUNCH = 0,
	SLOT_GRAPH_LAUNCH = 1,
	SLOT_SYNCHRONIZE = 2,
	SLOT_POLL_READY = 3,
	SLOT_POLL_NOT_READY = 4,
	SLOT_COPY_HTOD = 5,
	SLOT_COPY_DTOH = 6,
	SLOT_COPY_DTOD = 7,
	SLOT_COPY_PEER = 8,
	SLOT_COPY_UNKNOWN = 9,
	SLOT_SET = 10,
	SLOT_ALLOCATE = 11,
	SLOT_FREE = 12,
	SLOT_CONTEXT = 13,
	SLOT_SUBMIT_OTHER = 14, /* host functions, value waits, prefetches */
	SLOT_CAPTURED = 15,	/* calls recorded into a graph: not demand */
	SLOT_OTHER = 16,	/* streams, events, modules, graphs */
	SLOT_COUNT = 17,
};

/* Why the host waited: the index into counts.blocked_ns and counts.histogram. */
enum cause {
	CAUSE_SYNCHRONIZE = 0,
	CAUSE_COPY = 1,
	CAUSE_LAUNCH_QUEUE = 2,
	CAUSE_ALLOCATION = 3,
	CAUSE_LAUNCH_OTHER = 4,
	CAUSE_COUNT = 5,
};

/* Durations are kept in powers of 4 ns from 2^10 (1.02 us); the last is open. */
enum histogram {
	HISTOGRAM_BUCKETS = 14,
	HISTOGRAM_FIRST_LOG2 = 10,
	HISTOGRAM_STEP_LOG2 = 2,
};

/* Launch durations in steps of 1/4 octave from 512 ns: the learned issue cost. */
enum issue {
	ISSUE_BUCKETS = 20,
	ISSUE_FIRST_LOG2 = 9,
	ISSUE_STEPS_PER_OCTAVE = 2,
	ISSUE_FRESH_AT_MOST = 255,
	ISSUE_DEEP_AT_LEAST = 256,
};

/* What the programs do for a call beside counting it. */
enum action {
	ACTION_NONE = 0,
	ACTION_CTX_SET = 1,		 /* cuCtxSetCurrent(ctx) */
	ACTION_CTX_PUSH = 2,		 /* cuCtxPushCurrent(ctx) */
	ACTION_CTX_POP = 3,		 /* cuCtxPopCurrent(*ctx) */
	ACTION_CTX_CREATE = 4,		 /* (*ctx, ..., device at size_arg); made current */
	ACTION_CTX_DESTROY = 5,		 /* (ctx) */
	ACTION_PRIMARY_RETAIN = 6,	 /* (*ctx, device) */
	ACTION_PRIMARY_RELEASE = 7,	 /* (device) */
	ACTION_PRIMARY_RESET = 8,	 /* (device) */
	ACTION_GREEN_CREATE = 9,	 /* (*green, desc, device, flags) */
	ACTION_GREEN_DESTROY = 10,	 /* (green) */
	ACTION_GREEN_TO_CTX = 11,	 /* cuCtxFromGreenCtx(*ctx, green) */
	ACTION_DEVICE_UUID = 12,	 /* (*uuid, device) */
	ACTION_DEVICE_UUID_V2 = 13,	 /* (*uuid, device): the MIG instance's own */
	ACTION_STREAM_CREATE = 14,	 /* (*stream, ...) */
	ACTION_STREAM_CREATE_GREEN = 15, /* (*stream, green, flags, priority) */
	ACTION_STREAM_DESTROY = 16,	 /* (stream) */
	ACTION_STREAM_SYNC = 17,	 /* drains its stream */
	ACTION_STREAM_QUERY = 18,	 /* drains its stream when the answer is success */
	ACTION_CTX_SYNC = 19,		 /* drains the context */
	ACTION_EVENT_RECORD = 20,	 /* (event, stream) */
	ACTION_EVENT_SYNC = 21,		 /* (event) */
	ACTION_EVENT_QUERY = 22,	 /* (event) */
	ACTION_EVENT_DESTROY = 23,	 /* (event) */
	ACTION_CAPTURE_BEGIN = 24,	 /* (stream, ...) */
	ACTION_CAPTURE_END = 25,	 /* (stream, *graph) */
	ACTION_GRAPH_CREATE = 26,	 /* (*graph, ...) */
	ACTION_GRAPH_ADD_LAUNCH = 27,	 /* (*node, graph, ...): a launch node */
	ACTION_GRAPH_ADD_NODE = 28,    /* (*node, graph, ..., params at size_arg): type in params */
	ACTION_GRAPH_ADD_CHILD = 29,   /* (*node, graph, deps, n, child) */
	ACTION_GRAPH_ADD_OTHER = 30,   /* a node that launches nothing */
	ACTION_GRAPH_CLONE = 31,       /* (*clone, graph) */
	ACTION_GRAPH_INSTANTIATE = 32, /* (*exec, graph, ...) */
	ACTION_GRAPH_DESTROY = 33,     /* (graph) */
	ACTION_GRAPH_EXEC_DESTROY = 34, /* (exec) */
	ACTION_GRAPH_NODE_DESTROY = 35, /* (node): its graph becomes unknown */
	ACTION_GRAPH_LAUNCH = 36,	/* (exec, stream) */
	ACTION_ALLOCATE = 37,		/* (*pointer, bytes ...) family in `family` */
	ACTION_FREE = 38,		/* (pointer) */
	ACTION_MEM_CREATE = 39,		/* cuMemCreate(*handle, size, prop, flags) */
	ACTION_MEM_RELEASE = 40,	/* (handle) */
	ACTION_MEM_MAP = 41,		/* (ptr, size, offset, handle, flags) */
	ACTION_MEM_UNMAP = 42,		/* (ptr, size) */
	ACTION_MEM_RETAIN = 43,		/* (*handle, addr) */
	ACTION_MEM_IMPORT = 44,		/* (*handle, ...) */
	ACTION_CHECKPOINT_LOCK = 45,	/* (pid, args) */
	ACTION_CHECKPOINT_UNLOCK = 46,	/* (pid, args) */
	ACTION_HOST_REGISTER = 47,	/* (pointer, bytes, flags) */
	ACTION_COUNT = 48,
};

/* Where the number of bytes (or, for launches, of threads) comes from. */
enum size {
	SIZE_NONE = 0,
	SIZE_ARG = 1,		/* argument size_arg, shifted left by size_log2 */
	SIZE_TWO_ARGS = 2,	/* width at size_arg times height after it */
	SIZE_MEMCPY_2D = 3,	/* CUDA_MEMCPY2D at size_arg, with its direction */
	SIZE_MEMCPY_3D = 4,	/* CUDA_MEMCPY3D or _PEER at size_arg */
	SIZE_LAUNCH_ARGS = 5,	/* grid and block as arguments 2..7 */
	SIZE_LAUNCH_CONFIG = 6, /* CUlaunchConfig at size_arg */
	SIZE_PITCH = 7,		/* *pitch (argument 2, at return) times height (4) */
	SIZE_ARRAY = 8,		/* CUDA_ARRAY_DESCRIPTOR at size_arg */
	SIZE_ARRAY_3D = 9,	/* CUDA_ARRAY3D_DESCRIPTOR at size_arg */
	SIZE_BATCH = 10,	/* sizes[] at size_arg, count after it */
	SIZE_BATCH_3D = 11,	/* unknown: counted without bytes */
	SIZE_ARG32 = 12,	/* as SIZE_ARG, low 32 bits only: names from before CUDA 3.2 */
	SIZE_UNKNOWN = 13,	/* counted without bytes: structs from before CUDA 3.2 */
};

/* The stream of a call that passes none, or 0. */
enum stream_default {
	STREAM_NONE = 0,       /* the call has no stream; a submission is then on any: MIXED */
	STREAM_LEGACY = 1,     /* 0 means the legacy stream */
	STREAM_PER_THREAD = 2, /* 0 means this thread's own stream */
};

/* A process's numbers of streams: a context's own, for its legacy stream, or from STREAM_FIRST. */
enum stream_number {
	STREAM_IDLE = 0, /* nothing outstanding */
	STREAM_FIRST = 256,
	STREAM_MIXED = 0xffffffff, /* more than one, or not known */
};

/* Families of requested memory. */
enum family {
	FAMILY_DEVICE = 0,
	FAMILY_MANAGED = 1,
	FAMILY_POOL = 2,
	FAMILY_VIRTUAL = 3,
	FAMILY_HOST = 4,
	FAMILY_HOST_REGISTERED = 5,
	FAMILY_ARRAY = 6,
	FAMILY_COUNT = 7,
	FAMILY_RANGE = 8, /* rows of mapped address ranges; never summed */
};

/*
 * The uprobe cookie is a row of the function table: (first bit, width).
 * vendors/cookie.py packs it; COOKIE_FIELD in args.bpf.h takes it apart.
 */
enum cookie {
	COOKIE_ROW_SHIFT = 0,
	COOKIE_ROW_BITS = 10,
	COOKIE_SLOT_SHIFT = 10,
	COOKIE_SLOT_BITS = 5,
	COOKIE_ACTION_SHIFT = 15,
	COOKIE_ACTION_BITS = 6,
	COOKIE_SIZE_SHIFT = 21,
	COOKIE_SIZE_BITS = 4,
	COOKIE_SIZE_ARG_SHIFT = 25,
	COOKIE_SIZE_ARG_BITS = 4,
	COOKIE_SIZE_LOG2_SHIFT = 29,
	COOKIE_SIZE_LOG2_BITS = 2,
	COOKIE_STREAM_ARG_SHIFT = 31, /* 15: inside the CUlaunchConfig at argument 1 */
	COOKIE_STREAM_ARG_BITS = 4,
	COOKIE_STREAM_DEFAULT_SHIFT = 35,
	COOKIE_STREAM_DEFAULT_BITS = 2,
	COOKIE_CONTEXT_ARG_SHIFT = 37,
	COOKIE_CONTEXT_ARG_BITS = 4,
	COOKIE_POINTER_ARG_SHIFT = 41,
	COOKIE_POINTER_ARG_BITS = 4,
	COOKIE_FAMILY_SHIFT = 45,
	COOKIE_FAMILY_BITS = 3,
	COOKIE_SUBMITS_SHIFT = 48, /* puts work on the GPU */
	COOKIE_SUBMITS_BITS = 1,
	COOKIE_BLOCKS_SHIFT = 49, /* its whole duration is waiting */
	COOKIE_BLOCKS_BITS = 1,
	COOKIE_RETURNS_SHIFT = 50, /* has a return probe */
	COOKIE_RETURNS_BITS = 1,
	COOKIE_LINK_SHIFT = 58, /* which attached library, 0..63 */
	COOKIE_LINK_BITS = 6,
};

/* Everything that can be lost, each counted: index into losses.value. */
enum loss {
	LOSS_THREADS_FULL = 0,
	LOSS_COUNTS_FULL = 1,
	LOSS_PROCESSES_FULL = 2,
	LOSS_CONTEXTS_FULL = 3,
	LOSS_STREAMS_FULL = 4,
	LOSS_ALLOCATIONS_FULL = 5,
	LOSS_GRAPHS_FULL = 6,
	LOSS_EVENTS_FULL = 7,
	LOSS_ERRORS_FULL = 8,
	LOSS_RING_FULL = 9,
	LOSS_RING_LIMITED = 10,
	LOSS_STATE_CONTENDED = 11, /* compare-and-swap gave up: the stream became MIXED */
	LOSS_STREAM_UNREADABLE = 12,
	LOSS_SIZE_UNREADABLE = 13,
	LOSS_SIZE_REFUSED = 14,	   /* above the device's memory: a lie or a bug */
	LOSS_POINTER_UNKNOWN = 15, /* freed, never seen allocated */
	LOSS_POINTER_REPLACED = 16,
	LOSS_RESULT_UNREADABLE = 17, /* an out-parameter that could not be read */
	LOSS_QUOTA = 18,
	LOSS_DUPLICATE_HITS = 19,
	LOSS_ABANDONED_CALLS = 20,
	LOSS_DEPTH = 21,      /* context stack deeper than LIMIT_CONTEXT_DEPTH */
	LOSS_FREE_SLOTS = 22, /* a slot could not be handed back */
	LOSS_COUNT = 23,
};

/* Rare things that wake the agent: struct event.type. */
enum event_type {
	EVENT_PROCESS_FIRST_CALL = 0,
	EVENT_PROCESS_EXIT = 1,
	EVENT_PROCESS_EXEC = 2,
	EVENT_CONTEXT = 3,
	EVENT_DEVICE_UUID = 4,
	EVENT_FIRST_ERROR = 5,
	EVENT_CHECKPOINT_LOCK = 6,
	EVENT_CHECKPOINT_UNLOCK = 7,
	EVENT_DUPLICATE = 8,
	EVENT_COUNT = 9,
};

enum process_flag {
	PROCESS_ENDED = 1,
	PROCESS_EXECED = 2,	     /* ended by execve, the pid lives on */
	PROCESS_UNTRACED = 4,	     /* opted out, written by the agent: not counted */
	PROCESS_NODES_DESTROYED = 8, /* graph nodes were removed: counts of graphs unknown */
	PROCESS_SEEN_LATE =
		16, /* it mapped the library before its probes: contexts may be unseen */
};

enum open_flag {
	OPEN_SUBMITTED = 1, /* `ended` is owed one */
	OPEN_BLOCKED = 2,   /* inside blocked wall time */
	OPEN_CAPTURED = 4,  /* recorded into a graph: neither demand nor submission */
	OPEN_REFUSED = 8,   /* its size is above what there is */
};

#endif
