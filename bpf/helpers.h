/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The BPF helpers we call, by their numbers in the Linux user API
 * (include/uapi/linux/bpf.h, __BPF_FUNC_MAPPER), and the map macros that the
 * loader understands. Declared here so that no header is needed to build.
 */
#ifndef GPUGAUGE_HELPERS_H
#define GPUGAUGE_HELPERS_H

#include "gpu.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/*
 * Checked by the verifier once, by itself, and not at each place and state it is
 * called from: for code with loops. Takes numbers only.
 */
#define ONCE __attribute__((noinline))
/* Whatever the compiler knows of a value is forgotten: compare it after this, then use it. */
#define BOUNDED(value) asm volatile("" : "+r"(value))

#define NULL ((void *)0)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef _Bool bool;
#define true 1
#define false 0

/* BTF-defined maps: the value sits in the type, as an array's length. */
#define MAP_UINT(name, value) int (*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name

enum map_type {
	MAP_TYPE_HASH = 1,
	MAP_TYPE_ARRAY = 2,
	MAP_TYPE_LRU_HASH = 9,
	MAP_TYPE_QUEUE = 22,
	MAP_TYPE_RINGBUF = 27,
};

enum map_flag {
	MAP_NO_PREALLOC = 1,
	MAP_MMAPABLE = 1024,
};

enum update_flag {
	UPDATE_ANY = 0,
	UPDATE_NOEXIST = 1,
	UPDATE_EXIST = 2,
};

#ifndef GPUGAUGE_HOST_MODEL
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static __u64 (*ktime_get_ns)(void) = (void *)5;
static __u64 (*get_current_pid_tgid)(void) = (void *)14;
static long (*get_current_comm)(void *buf, __u32 size) = (void *)16;
static __u64 (*get_current_task)(void) = (void *)35;
static __u64 (*get_current_cgroup_id)(void) = (void *)80;
static long (*map_push)(void *map, const void *value, __u64 flags) = (void *)87;
static long (*map_pop)(void *map, void *value) = (void *)88;
static long (*probe_read_user)(void *dst, __u32 size, const void *src) = (void *)112;
static long (*probe_read_linux)(void *dst, __u32 size, const void *src) = (void *)113;
static void *(*ringbuf_reserve)(void *map, __u64 size, __u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *data, __u64 flags) = (void *)132;
static __u64 (*get_attach_cookie)(void *ctx) = (void *)174;

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#define ADD(x, value) __sync_fetch_and_add(&(x), value)
#define SUB(x, value) __sync_fetch_and_sub(&(x), value)
#define OR(x, value) __sync_fetch_and_or(&(x), value)
#define CAS(x, old, new) __sync_val_compare_and_swap(&(x), old, new)
#endif /* GPUGAUGE_HOST_MODEL: tests/model has its own, which stop at each step */

#endif
