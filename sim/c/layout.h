/*
 * What the simulated driver, NVML and Python share: the layout of the state
 * file and of a process's oracle file. Every field is a u64, and the lists
 * below are read by sim/layout.py too, so there is one truth of it.
 */
#ifndef SIM_LAYOUT_H
#define SIM_LAYOUT_H

#include <pthread.h>
#include <stdint.h>

enum sim_limit {
	SIM_MAGIC = 0x67617567, /* "guag" */
	SIM_VERSION = 4,
	SIM_SYMBOLS = 1024,
	SIM_DEVICES = 64, /* MIG instances included */
	SIM_CHANNELS = 256,
	SIM_ROWS = 8192,
	SIM_RING = 4096,
	SIM_CODES = 7,
	SIM_LOCK_BYTES = 64,
};

/* Settable while it runs; the first value comes from GPUGAUGE_SIM_<NAME>. */
#define SIM_CONFIG_FIELDS(F)                                                                       \
	F(issue_ns)		  /* host time of a submission */                                  \
	F(instant)		  /* 1: every call returns at once, no device model */             \
	F(queue_depth)		  /* launches outstanding per context before one blocks */         \
	F(slice_ns)		  /* time slice between contexts that both have work */            \
	F(launch_ns)		  /* a launch whose name tells no duration */                      \
	F(graph_node_gap_ns)	  /* between the nodes of a graph */                               \
	F(copy_latency_ns)	  /* of any copy, before its bytes */                              \
	F(pageable_htod_mb_per_s) /* 10^6 bytes a second */                                        \
	F(pageable_dtoh_mb_per_s)                                                                  \
	F(pinned_mb_per_s)                                                                         \
	F(dtod_mb_per_s)                                                                           \
	F(staged_bytes)	 /* pageable host-to-device copies up to this do not block */              \
	F(data_bytes)	 /* copies up to this really move their bytes */                           \
	F(chunk_bytes)	 /* granularity of device memory */                                        \
	F(context_bytes) /* held by a context */                                                   \
	F(allocate_ns)	 /* cuMemAlloc of new chunks */                                            \
	F(free_ns)                                                                                 \
	F(device_count)	      /* physical devices */                                               \
	F(mig_instances)      /* of each physical device; 0: MIG off */                            \
	F(device_bytes)	      /* memory of a physical device */                                    \
	F(reserved_bytes)     /* of it, never to be had */                                         \
	F(driver_version)     /* cuDriverGetVersion */                                             \
	F(nvml_code)	      /* every NVML call answers this, 0: off */                           \
	F(nvml_hang)	      /* NVML calls do not return while 1 */                               \
	F(nvml_vanished)      /* NVML answers UNINITIALIZED while 1 */                             \
	F(nvml_process_count) /* a lie: this many processes, 0: off */                             \
	F(nvml_no_memory)     /* usedGpuMemory answers NOT_AVAILABLE while 1 */

/* Of one function, by its line in symbols.txt. */
#define SIM_CONTROL_FIELDS(F)                                                                      \
	F(code)	     /* the CUresult returned instead of doing anything */                         \
	F(remaining) /* how many calls still get it; 2^64-1: all, 0: none */                       \
	F(hang)	     /* calls do not go on while 1 */                                              \
	F(delay_ns)  /* slept before the call */

#define SIM_DEVICE_FIELDS(F)                                                                       \
	F(uuid_high) /* big-endian halves; the instance's own under MIG */                         \
	F(uuid_low)                                                                                \
	F(parent_high) /* of the physical device */                                                \
	F(parent_low)                                                                              \
	F(parent) /* index of the physical device */                                               \
	F(mig)	  /* 1: an instance */                                                             \
	F(total_bytes)                                                                             \
	F(used_bytes) /* held by processes */                                                      \
	F(clock_ns)   /* CLOCK_MONOTONIC up to which the model has run */                          \
	F(busy_ns)    /* time a launch or copy ran */                                              \
	F(current)    /* channel that has the slice */                                             \
	F(slice_left_ns)

/* The truth of one process on one device. Rows outlive the process. */
#define SIM_ROW_FIELDS(F)                                                                          \
	F(used)                                                                                    \
	F(pid)                                                                                     \
	F(start_ns) /* when the process attached: tells reused pids apart */                       \
	F(device)                                                                                  \
	F(contexts)                                                                                \
	F(held_bytes) /* what NVML reports */                                                      \
	F(busy_ns)    /* its launches and copies running */                                        \
	F(idle_ns)    /* nothing outstanding, from first to last submission */                     \
	F(first_submit_ns)                                                                         \
	F(last_submit_ns)                                                                          \
	F(empty_since_ns) /* valid while outstanding is 0 */                                       \
	F(outstanding)                                                                             \
	F(submissions)                                                                             \
	F(launches)                                                                                \
	F(launch_threads) /* grid times block, summed */                                           \
	F(captured)	  /* calls recorded into graphs */                                         \
	F(graph_launches)                                                                          \
	F(graph_nodes) /* launch nodes of the graphs launched */                                   \
	F(copies_htod)                                                                             \
	F(copies_dtoh)                                                                             \
	F(copies_dtod)                                                                             \
	F(copies_peer)                                                                             \
	F(copies_unknown) /* cuMemcpy(Async): the direction is not in the call */                  \
	F(bytes_htod)                                                                              \
	F(bytes_dtoh)                                                                              \
	F(bytes_dtod)                                                                              \
	F(bytes_peer)                                                                              \
	F(bytes_unknown)                                                                           \
	F(sets)                                                                                    \
	F(set_bytes)                                                                               \
	F(blocked_synchronize_ns)                                                                  \
	F(blocked_copy_ns)                                                                         \
	F(blocked_launch_queue_ns)                                                                 \
	F(blocked_allocation_ns)                                                                   \
	F(blocked_launches) /* launches that found the queue full */                               \
	F(requested_device)                                                                        \
	F(requested_managed)                                                                       \
	F(requested_pool)                                                                          \
	F(requested_virtual)                                                                       \
	F(requested_host)                                                                          \
	F(requested_host_registered)                                                               \
	F(requested_array)                                                                         \
	F(peak_device)                                                                             \
	F(peak_managed)                                                                            \
	F(peak_pool)                                                                               \
	F(peak_virtual)                                                                            \
	F(peak_host)                                                                               \
	F(peak_host_registered)                                                                    \
	F(peak_array)

#define SIM_ITEM_FIELDS(F)                                                                         \
	F(remaining_ns)                                                                            \
	F(stream)                                                                                  \
	F(scope) /* enum item_scope */                                                             \
	F(kind)                                                                                    \
	F(ready)	/* a host function may run now */                                          \
	F(wait_channel) /* for an event: channel + 1 */                                            \
	F(wait_seq)                                                                                \
	F(done_ns) /* 0: not done */

/* A context's queue; its items are in the ring of the same number. */
#define SIM_CHANNEL_FIELDS(F)                                                                      \
	F(used)                                                                                    \
	F(device)                                                                                  \
	F(row)                                                                                     \
	F(head)		 /* first item that may not be done */                                     \
	F(tail)		 /* number the next item gets */                                           \
	F(launches)	 /* outstanding ones, against queue_depth */                               \
	F(blocked_items) /* host functions and waits inside */                                     \
	F(held_bytes)                                                                              \
	F(small_bytes) /* of allocations that share chunks */

#define SIM_HEADER_FIELDS(F)                                                                       \
	F(magic) F(version) F(ready) F(symbol_count) F(reaped_ns) F(channel_top)

#define SIM_SYMBOL_FIELDS(F) F(entered) F(succeeded)

#define SIM_ORACLE_FIELDS(F) F(magic) F(version) F(pid) F(start_ns) F(symbol_count) F(parent_pid)

#define SIM_U64(name) uint64_t name;

struct sim_config {
	SIM_CONFIG_FIELDS(SIM_U64)
};
struct sim_control {
	SIM_CONTROL_FIELDS(SIM_U64)
};
struct sim_device {
	SIM_DEVICE_FIELDS(SIM_U64)
};
struct sim_row {
	SIM_ROW_FIELDS(SIM_U64)
};
struct sim_item {
	SIM_ITEM_FIELDS(SIM_U64)
};
struct sim_header {
	SIM_HEADER_FIELDS(SIM_U64)
};

struct sim_channel {
	SIM_CHANNEL_FIELDS(SIM_U64)
};

struct sim_ring {
	struct sim_item items[SIM_RING];
};

struct sim_state {
	struct sim_header header;
	union {
		pthread_mutex_t mutex;
		char bytes[SIM_LOCK_BYTES];
	} lock;
	struct sim_config config;
	struct sim_control controls[SIM_SYMBOLS];
	struct sim_device devices[SIM_DEVICES];
	struct sim_row rows[SIM_ROWS];
	struct sim_channel channels[SIM_CHANNELS];
	struct sim_ring rings[SIM_CHANNELS];
};

/* A call's answers other than success, by code; the last slot takes the rest. */
struct sim_code {
	uint64_t code; /* 0: free */
	uint64_t calls;
};

struct sim_symbol {
	SIM_SYMBOL_FIELDS(SIM_U64)
	struct sim_code codes[SIM_CODES];
};

struct sim_oracle {
	SIM_ORACLE_FIELDS(SIM_U64)
	struct sim_symbol symbols[SIM_SYMBOLS];
};

#endif
