/* What the files of the simulated driver share inside one process. */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>

#include "layout.h"

typedef uint32_t u32;
typedef uint64_t u64;

/* CUresult: the values that cuda.h documents. */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_ALREADY_MAPPED = 208,
	CUDA_ERROR_NOT_MAPPED = 211,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
};

/* Marks of objects, so that a wrong or destroyed handle is told apart. */
enum magic {
	MAGIC_FREE = 0x46524545,
	MAGIC_CONTEXT = 0x43545821,
	MAGIC_STREAM = 0x5354524d,
	MAGIC_EVENT = 0x45564e54,
	MAGIC_MODULE = 0x4d4f4455,
	MAGIC_FUNCTION = 0x46554e43,
	MAGIC_GRAPH = 0x47524150,
	MAGIC_NODE = 0x4e4f4445,
	MAGIC_EXEC = 0x45584543,
	MAGIC_GREEN = 0x4752454e,
	MAGIC_POOL = 0x504f4f4c,
	MAGIC_ARRAY = 0x41525259,
	MAGIC_PHYSICAL = 0x50485953,
	MAGIC_CAPTURE = 0x43415054,
};

enum item_kind {
	ITEM_LAUNCH = 1,
	ITEM_COPY = 2,
	ITEM_MARK = 3, /* an event record, or anything else that takes no time */
	ITEM_HOST = 4, /* done when this process's callback thread says so */
	ITEM_WAIT = 5, /* done when another item is */
};

/* What an item's stream waits for, and what a wait covers. */
enum item_scope {
	SCOPE_OWN = 0,	    /* a non-blocking stream; a wait for one item */
	SCOPE_BLOCKING = 1, /* ordered with the legacy stream; a wait for all such streams */
	SCOPE_LEGACY = 2,   /* the legacy stream itself; a wait for the whole context */
};

enum direction {
	COPY_HTOD,
	COPY_DTOH,
	COPY_DTOD,
	COPY_PEER,
	COPY_UNKNOWN,
	COPY_DIRECTIONS,
};

enum memory_family {
	MEMORY_DEVICE,
	MEMORY_MANAGED,
	MEMORY_POOL,
	MEMORY_VIRTUAL,
	MEMORY_HOST,
	MEMORY_HOST_REGISTERED,
	MEMORY_ARRAY,
	MEMORY_FAMILIES,
};

struct object {
	u32 magic;
	u32 size;
	struct object *next; /* of the free list */
};

struct capture {
	struct object object;
	struct graph *graph;
	u64 id;
	u64 thread;
	u32 mode;
	bool invalidated;
	struct stream *origin;
	struct stream *members; /* linked by capture_next */
};

struct stream {
	struct object object;
	struct context *context;
	struct green *green;
	u32 id;
	u32 flags; /* 1: CU_STREAM_NON_BLOCKING */
	int priority;
	u64 last; /* number of its last item */
	struct capture *capture;
	struct stream *capture_next;
	struct stream *next; /* of the context */
	u64 owner_thread;    /* of a per-thread stream */
};

struct context {
	struct object object;
	u32 device; /* index into sim->devices */
	u32 ordinal;
	u32 channel;
	u32 flags;
	u32 references; /* of a primary context */
	bool primary;
	u64 id;
	u64 last;	   /* number of its last item */
	u64 last_blocking; /* ... of streams that wait for the legacy one */
	struct stream legacy;
	struct stream *streams;
	struct context *next;
};

struct green {
	struct object object;
	struct context *context;
	struct context *view; /* what cuCtxFromGreenCtx answers */
	u64 id;
};

struct event {
	struct object object;
	u32 flags;
	bool recorded;
	u32 channel;
	u64 seq;
	u64 done_ns;
	struct context *context;
	struct capture *capture;
};

struct module {
	struct object object;
	struct context *context;
	struct function *functions;
};

struct function {
	struct object object;
	struct function *next;
	struct module *module;
	u64 duration_ns;
	bool from_argument;
	bool known;   /* the name told a duration */
	u32 block[3]; /* cuFuncSetBlockShape */
	char name[128];
};

/* One thread's view. */
enum { SIM_STACK = 64 };

struct thread {
	u64 generation; /* of the process: a forked child starts anew */
	u64 id;
	bool per_thread_default; /* this call is a _ptsz or _ptds form */
	u32 injected;
	u32 capture_mode;
	u32 depth;
	u64 entry_ns;
	struct context *stack[SIM_STACK];
	struct stream *streams; /* per-thread ones, linked by capture-free next */
	struct function *legacy_function;
};

struct sim_name {
	const char *name;
	void *stub;
	void *implementation;
	bool per_thread;
	bool before_init;
	const char *base; /* what cuGetProcAddress calls it */
	u32 since;	  /* CUDA version that this form begins with */
};

extern const struct sim_name sim_names[];
extern const u32 sim_name_count;

extern struct sim_state *sim; /* mapped at the first call */
extern _Thread_local struct thread sim_thread;

/* state.c */
int state_attach(void);
void state_lock(void);
void state_unlock(void);
u64 now_ns(void);
void pause_ns(u64 ns);
int state_channel_lock(u32 channel);
void state_channel_unlock(u32 channel);
bool state_channel_alive(u32 channel, int *pid);
bool state_channel_mine(u32 channel);
void state_forget_locks(void);
const char *state_path(void);

/* process.c */
void *sim_enter(u32 index);
void sim_leave(u32 index, u32 code);
struct sim_row *process_row(u32 device);
void process_lock(void);
void process_unlock(void);
extern bool process_initialized;
extern u64 process_generation;
extern u64 process_start_ns;
u64 thread_id(void);

/* object.c */
void *object_new(u32 magic, size_t size);
void object_free(void *object);
bool object_is(const void *handle, u32 magic);

/* device.c */
void device_advance_all(u64 now);
struct sim_item *device_item(u32 channel, u64 seq);
u64 device_remaining_ns(u32 channel, u64 seq);
void device_reap(u64 now);
void channel_drop(u32 channel);

/* queue.c */
int queue_submit(struct stream *stream, u32 kind, u64 duration_ns, u64 *seq);
int queue_submit_wait(struct stream *stream, u32 channel, u64 seq);
bool queue_done(u32 channel, u64 seq, u64 *done_ns);
void queue_wait(u32 channel, u64 seq);
void queue_wait_scope(u32 channel, u64 seq, u32 scope);
bool queue_over(u32 channel, u64 seq, u32 scope);
void queue_complete(u32 channel, u64 seq);
bool queue_host_ready(u32 channel, u64 seq);
void issue_cost(void);

/* devices as the process numbers them */
int visible_count(void);
int visible_device(int ordinal); /* index into sim->devices, or -1 */
void visible_reset(void);

/* context.c */
struct context *context_current(void);
int context_of_device(int ordinal, struct context **context);
struct context *context_check(void *handle);
void context_reset_all(void);

/* stream.c */
int stream_resolve(void *handle, struct stream **stream);
void stream_forget_thread(void);
void stream_init(struct stream *stream, struct context *context, u32 flags);

/* event.c, callback.c */
int callback_submit(struct stream *stream, void (*function)(void *), void *data);
void callback_forget(void);

/* graph.c */
enum node_type {
	NODE_KERNEL = 0,
	NODE_MEMCPY = 1,
	NODE_MEMSET = 2,
	NODE_HOST = 3,
	NODE_GRAPH = 4,
	NODE_EMPTY = 5,
	NODE_WAIT_EVENT = 6,
	NODE_EVENT_RECORD = 7,
	NODE_SEMAPHORE_SIGNAL = 8,
	NODE_SEMAPHORE_WAIT = 9,
	NODE_MEM_ALLOC = 10,
	NODE_MEM_FREE = 11,
	NODE_BATCH_MEM_OP = 12,
	NODE_CONDITIONAL = 13,
};
struct graph;
struct node *graph_record(struct graph *graph, u32 type, u64 duration_ns);
void graph_record_host(struct graph *graph, void (*function)(void *), void *data);
struct graph *graph_new(void);

/* capture.c: true when the call was recorded and must not be submitted */
bool capture_takes(struct stream *stream, u32 type, u64 duration_ns, int *result);
int capture_forbids(struct stream *stream);

/* memory.c */
int memory_charge(struct context *context, u64 bytes);
void memory_requested(u32 device, u32 family, int64_t bytes);
bool memory_is_pinned(const void *pointer);
bool memory_is_device(u64 pointer, u64 bytes);
u64 memory_size(u64 pointer, u64 *start);
int memory_allocate(struct context *context, u32 family, u64 bytes, bool low, u64 *pointer);
int memory_free(u64 pointer, u32 family);
void memory_drop(struct context *context);
void memory_forget(void);

#define ADD(field, amount) __atomic_fetch_add(&(field), (amount), __ATOMIC_RELAXED)

#endif
