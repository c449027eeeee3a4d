/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Programs that only count their hits: the proof at start and the benchmark
 * measure with them what a probe costs by itself.
 */
#include "helpers.h"

enum empty_limit {
	EMPTY_SITES = 64,
};

/* By cookie: entries and returns. An array; its rows are never deleted. */
struct empty_hits {
	__u64 entries;
	__u64 returns;
};

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, EMPTY_SITES);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct empty_hits);
} hits SEC(".maps");

extern bool bpf_session_is_return(void) __attribute__((section(".ksyms")));

INLINE struct empty_hits *row(void *ctx)
{
	__u32 site = get_attach_cookie(ctx);

	return map_lookup(&hits, &site);
}

INLINE int count_entry(void *ctx)
{
	struct empty_hits *mine = row(ctx);

	if (mine)
		ADD(mine->entries, 1);
	return 0;
}

INLINE int count_return(void *ctx)
{
	struct empty_hits *mine = row(ctx);

	if (mine)
		ADD(mine->returns, 1);
	return 0;
}

SEC("uprobe.session") int session_count(void *ctx)
{
	return bpf_session_is_return() ? count_return(ctx) : count_entry(ctx);
}

SEC("uprobe.multi") int multi_entry_count(void *ctx)
{
	return count_entry(ctx);
}

SEC("uretprobe.multi") int multi_return_count(void *ctx)
{
	return count_return(ctx);
}

SEC("uprobe") int perf_entry_count(void *ctx)
{
	return count_entry(ctx);
}

SEC("uretprobe") int perf_return_count(void *ctx)
{
	return count_return(ctx);
}

SEC("uprobe.multi") int multi_empty(void *ctx)
{
	return 0;
}

SEC("uprobe") int perf_empty(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
