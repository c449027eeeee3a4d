/*
 * Every interleaving of the state machines of bpf/idle.bpf.h and
 * bpf/blocked.bpf.h, compiled from those files.
 *
 * Each thread runs the real functions on a stack of its own and stops before
 * every access to shared memory, and before every step of the world (reading
 * the clock, work reaching a stream, a wait being over). A depth-first search
 * runs every order of those steps, from the start each time. The world knows
 * what is outstanding; a run is false when idle time is claimed while it is,
 * or when more time is called blocked than was.
 *
 * Usage: explore VARIANT PREFIX SCRIPT...  ->  "interleavings false exact"
 */
#define GPUGAUGE_HOST_MODEL
#include "../../bpf/helpers.h"

extern int printf(const char *, ...);
extern int strcmp(const char *, const char *);
extern void *memset(void *, int, unsigned long);
extern void exit(int);

static void step(void);
static __u64 model_add(__u64 *at, __u64 value);

#define READ_ONCE(x) (step(), *(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#define ADD(x, value) model_add((__u64 *)&(x), value)
#define SUB(x, value) (step(), __sync_fetch_and_sub(&(x), value))
#define OR(x, value) (step(), __sync_fetch_and_or(&(x), value))
#define CAS(x, old, new) (step(), __sync_val_compare_and_swap(&(x), old, new))

#include "../../bpf/blocked.bpf.h"

#define MAX_THREADS 3
#define MAX_STEPS 96
#define MAX_ITEMS 16
#define MAX_OPS 4
#define STACK_BYTES 16384
#define TIME_UNIT 64 /* one step of the world takes one unit of the blocked word */

/* ---- threads that stop ------------------------------------------------ */

struct thread_model {
	void *sp;
	int finished;
	__u64 now_ns; /* what this thread's clock said last */
	char stack[STACK_BYTES] __attribute__((aligned(16)));
};

static struct thread_model threads_[MAX_THREADS];
static void *scheduler_sp;
static int current, thread_count;

void switch_stacks(void **save, void *load);
asm(".globl switch_stacks\n"
    "switch_stacks:\n"
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    "ret\n");

static int prefix_runs; /* the prefix is run in one go, before the threads begin */

static void step(void)
{
	if (prefix_runs)
		return;
	switch_stacks(&threads_[current].sp, scheduler_sp);
}

/* ---- the world -------------------------------------------------------- */

struct item {
	__u32 stream;
	__u64 from, to; /* outstanding; to 0: still */
};

struct span {
	__u64 from, to;
};

static struct device_state device;
static struct process process_row;
static __u64 world_time;
static struct item items[MAX_ITEMS];
static struct span claims[MAX_ITEMS], waits[MAX_ITEMS];
static int item_count, claim_count, wait_count;
static __u64 published_wall;
static int wall_fell;

static __u64 clock_ns(void)
{
	step();
	world_time += TIME_UNIT;
	threads_[current].now_ns = world_time;
	return world_time;
}

/* Adds are steps, but for idle time, which nobody reads: there the claim is noted. */
static __u64 model_add(__u64 *at, __u64 value)
{
	__u64 now_ns = threads_[current].now_ns;

	if (at == &device.idle_ns) {
		claims[claim_count].from = now_ns - value;
		claims[claim_count++].to = now_ns;
	} else if (at == &process_row.blocked_wall_ns) {
		if (*at + value < published_wall)
			wall_fell = 1;
		published_wall = *at + value;
	} else {
		step();
	}
	return __sync_fetch_and_add(at, value);
}

static void work_reaches(__u32 stream)
{
	step();
	world_time += TIME_UNIT;
	items[item_count].stream = stream;
	items[item_count].from = world_time;
	items[item_count++].to = 0;
}

/* The wait is over: what it waited for is done, no earlier than now. */
static void work_done(__u32 stream)
{
	step();
	world_time += TIME_UNIT;
	for (int i = 0; i < item_count; i++)
		if (!items[i].to && (stream == STREAM_MIXED || items[i].stream == stream))
			items[i].to = world_time;
}

/* ---- the operations, as gpu.bpf.c strings them together ---------------- */

static int variant_check_then_set, variant_open_ignored, variant_two_words;

static void submit(__u32 stream)
{
	bool contended = false;
	__u64 now_ns = clock_ns();

	idle_submit(&device, stream, now_ns, &contended);
	work_reaches(stream);
	idle_submitted(&device);
}

static void wait_for(__u32 stream)
{
	__u64 ended, state, now_ns;

	idle_look(&device, &ended, &state);
	work_done(stream);
	now_ns = clock_ns();
	if (variant_open_ignored)
		ended = STATE_TICKET(state);
	if (!variant_check_then_set) {
		idle_drain(&device, ended, state, stream, now_ns);
		return;
	}
	/* The mistake that compare-and-swap is there for. */
	if (!idle_settled(ended, state) || READ_ONCE(device.state) != state)
		return;
	if (STATE_STREAM(state) != stream && stream != STREAM_MIXED)
		return;
	step();
	device.drained_ns = now_ns;
	device.state = STATE(STATE_TICKET(state), STREAM_IDLE);
}

static __u64 two_words_depth, two_words_start;

/* Depth and start apart: the mistake that the packed word is there for. */
static void block_two_words(void)
{
	__u64 from = clock_ns(), to;
	int waiting;

	step();
	if (two_words_depth++ == 0) {
		step();
		two_words_start = from;
	}
	to = clock_ns();
	waiting = wait_count++;
	waits[waiting].from = from;
	waits[waiting].to = ~0ull;
	step();
	if (--two_words_depth == 0) {
		step();
		model_add(&process_row.blocked_wall_ns, to - two_words_start);
	}
	waits[waiting].to = world_time;
}

static void block(void)
{
	__u64 from, to;
	bool entered;
	int waiting;

	if (variant_two_words) {
		block_two_words();
		return;
	}
	from = clock_ns();
	entered = blocked_enter(&process_row, from);
	to = clock_ns();
	waiting = wait_count++;
	waits[waiting].from = from;
	waits[waiting].to = ~0ull;
	if (entered)
		blocked_leave(&process_row, to);
	/* The call is open until its return probe is done: only then it goes on. */
	waits[waiting].to = world_time;
}

static void waited(void)
{
	__u64 from = clock_ns(), to = clock_ns();

	waits[wait_count].from = from;
	waits[wait_count++].to = to;
	blocked_waited(&process_row, from, to);
}

/* ---- scenarios ---------------------------------------------------------- */

/*
 * Letters: a/b submit on stream 1/2, s/t wait for stream 1/2, c waits for all,
 * B blocks, W turns out to have waited. One word a thread.
 */
static const char *const *scripts;
static const char *prefix;

static void run_operations(const char *op)
{
	for (; *op; op++) {
		switch (*op) {
		case 'a':
			submit(1);
			break;
		case 'b':
			submit(2);
			break;
		case 's':
			wait_for(1);
			break;
		case 't':
			wait_for(2);
			break;
		case 'c':
			wait_for(STREAM_MIXED);
			break;
		case 'B':
			block();
			break;
		case 'W':
			waited();
			break;
		}
	}
}

static void run_script(void)
{
	run_operations(scripts[current]);
	threads_[current].finished = 1;
	switch_stacks(&threads_[current].sp, scheduler_sp);
}

static void reset(void)
{
	memset(&device, 0, sizeof(device));
	memset(&process_row, 0, sizeof(process_row));
	two_words_depth = two_words_start = 0;
	world_time = TIME_UNIT;
	item_count = claim_count = wait_count = 0;
	published_wall = 0;
	prefix_runs = 1;
	run_operations(prefix);
	prefix_runs = 0;
	for (int i = 0; i < thread_count; i++) {
		void **top = (void **)(threads_[i].stack + STACK_BYTES - 16);

		*--top = 0; /* run_script never returns here */
		*--top = (void *)run_script;
		threads_[i].sp = top - 6;
		threads_[i].finished = 0;
	}
}

static void go_on(int thread)
{
	current = thread;
	switch_stacks(&scheduler_sp, threads_[thread].sp);
}

/* ---- what must hold ----------------------------------------------------- */

static int idle_is_false(void)
{
	for (int i = 0; i < claim_count; i++)
		for (int j = 0; j < item_count; j++) {
			__u64 end = items[j].to ? items[j].to : ~0ull;

			if (items[j].from < claims[i].to && end > claims[i].from)
				return 1;
		}
	return 0;
}

/* Time in which somebody waited, by the units of the world. */
static __u64 true_wall(void)
{
	__u64 sum = 0;

	for (__u64 at = 0; at < world_time; at += TIME_UNIT)
		for (int i = 0; i < wait_count; i++)
			if (waits[i].from <= at && at < waits[i].to) {
				sum += TIME_UNIT;
				break;
			}
	return sum;
}

/* ---- the search --------------------------------------------------------- */

static unsigned long long explored, false_runs, exact_runs;

static void judge(void)
{
	__u64 wall = process_row.blocked_wall_ns, truth = true_wall();

	explored++;
	if (idle_is_false() || wall > truth || wall_fell)
		false_runs++;
	else if (wall == truth)
		exact_runs++;
	wall_fell = 0;
}

static void search(void)
{
	int choice[MAX_STEPS], depth = 0, steps;

	memset(choice, 0, sizeof(choice));
	for (;;) {
		reset();
		for (steps = 0;; steps++) {
			int next = steps < depth ? choice[steps] : 0;

			while (next < thread_count && threads_[next].finished)
				next++;
			if (next == thread_count)
				break;
			if (steps == MAX_STEPS)
				exit(3);
			choice[steps] = next;
			go_on(next);
		}
		judge();
		/* The last step that has a later thread to try. */
		int alive_after = 0;

		for (depth = steps; depth > 0; depth--) {
			/* Which threads still have steps at depth - 1 is in the choices behind it. */
			int had = choice[depth - 1], other = -1;

			for (int t = had + 1; t < thread_count && other < 0; t++)
				for (int k = depth; k < steps; k++)
					if (choice[k] == t) {
						other = t;
						break;
					}
			if (other >= 0) {
				choice[depth - 1] = other;
				alive_after = 1;
				break;
			}
		}
		if (!alive_after)
			return;
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	variant_check_then_set = !strcmp(argv[1], "check-then-set");
	variant_open_ignored = !strcmp(argv[1], "open-ignored");
	variant_two_words = !strcmp(argv[1], "two-words");
	prefix = argv[2];
	scripts = (const char *const *)argv + 3;
	thread_count = argc - 3;
	if (thread_count > MAX_THREADS)
		return 2;
	search();
	printf("%llu %llu %llu\n", explored, false_runs, exact_runs);
	return 0;
}
