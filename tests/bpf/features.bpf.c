/* Everything the loader has to handle, each with a count that shows it ran. */
#include "helpers.h"

enum features_limit {
	NUMBERS = 5000,
	WORDS = 3,
};

struct inner {
	__u32 first;
	__u32 padding;
	__u64 second[WORDS];
};

struct flat {
	__u64 one;
	struct {
		__u64 two[2];
		__u64 three;
	} rows[4];
};

struct mixed {
	__u8 small;
	__u8 padding[7];
	struct inner inners[2];
	union {
		__u64 whole;
		__u32 half;
	};
};

struct record {
	__u64 number;
	__u64 square;
};

/* Settings, initialized data and zeros: three sections behind three maps. */
const volatile __u64 setting = 41;
const volatile __u32 small_setting = 7;
const volatile __s32 negative_setting = -1;
volatile __u64 initialized = 1000;
volatile __u64 zero_at_first;
volatile __u64 from_subprogram;
volatile __u64 from_callback;
volatile __u64 cookie_seen;
struct flat flat_value;
struct mixed mixed_value;

struct {
	MAP_UINT(type, MAP_TYPE_HASH);
	MAP_UINT(max_entries, NUMBERS);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct record);
} numbers SEC(".maps");

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, 3);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct inner);
} mapped SEC(".maps");

struct {
	MAP_UINT(type, MAP_TYPE_QUEUE);
	MAP_UINT(max_entries, 4);
	MAP_TYPE(value, __u32);
} queue SEC(".maps");

struct {
	MAP_UINT(type, MAP_TYPE_RINGBUF);
	MAP_UINT(max_entries, 4096);
} ring SEC(".maps");

static long (*loop)(__u32 count, void *callback, void *context, __u64 flags) = (void *)181;

__attribute__((noinline)) static __u64 twice(__u64 value)
{
	from_subprogram++;
	return 2 * value;
}

__attribute__((noinline)) static __u64 four_times(__u64 value)
{
	return twice(twice(value));
}

static long add_one(__u32 index, void *context)
{
	from_callback += index;
	return 0;
}

SEC("uprobe.multi/work") int work(void *ctx)
{
	__u32 one = 1;
	struct inner *row = map_lookup(&mapped, &one);

	zero_at_first = setting + small_setting + (__u64)negative_setting;
	initialized += four_times(setting);
	cookie_seen = get_attach_cookie(ctx);
	loop(10, add_one, NULL, 0);
	flat_value.one++;
	mixed_value.whole++;
	if (row)
		row->second[2] = 1299709;
	return 0;
}

SEC("uprobe.multi/send") int send(void *ctx)
{
	struct record *record = ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return 0;
	zero_at_first++;
	record->number = zero_at_first;
	record->square = zero_at_first * zero_at_first;
	ringbuf_submit(record, 0);
	return 0;
}

/* Refused by the verifier: reads a map's row without a check. */
SEC("uprobe.multi/refused") int refused(void *ctx)
{
	__u32 key = 0;
	struct record *row = map_lookup(&numbers, &key);

	return row->number;
}

extern void gpugauge_has_no_such_function(void) __attribute__((section(".ksyms")));

SEC("uprobe.multi/absent") int absent(void *ctx)
{
	gpugauge_has_no_such_function();
	return 0;
}

SEC("raw_tp/sched_process_exit") int ends(void *ctx)
{
	from_subprogram++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
