/* One process: its oracle file, its rows, and what happens around each call. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

/* In a page that fork() empties: a child, however it was made, attaches anew. */
struct guard {
	u64 attached;
};

_Thread_local struct thread sim_thread;
bool process_initialized;
u64 process_generation;
u64 process_start_ns;
static struct guard *guard;
static struct sim_oracle *oracle;
static struct sim_row *rows[SIM_DEVICES];
static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static u64 next_thread;

void process_lock(void)
{
	pthread_mutex_lock(&lock);
}

void process_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

u64 thread_id(void)
{
	if (sim_thread.generation != process_generation) {
		memset(&sim_thread, 0, sizeof(sim_thread));
		sim_thread.generation = process_generation;
		sim_thread.id = ADD(next_thread, 1) + 1;
		prctl(PR_SET_TIMERSLACK, 1); /* or each sleep ends 50 us late */
	}
	return sim_thread.id;
}

static struct sim_oracle *oracle_create(u64 parent_pid)
{
	char path[560];
	struct sim_oracle *file;
	int fd;

	snprintf(path, sizeof(path), "%s.oracle", state_path());
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s.oracle/%d-%llu", state_path(), getpid(),
		 (unsigned long long)process_start_ns);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(*file)))
		return NULL;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return NULL;
	file->magic = SIM_MAGIC;
	file->version = SIM_VERSION;
	file->pid = (u64)getpid();
	file->parent_pid = parent_pid;
	file->start_ns = process_start_ns;
	file->symbol_count = sim_name_count;
	return file;
}

/* What a forked child must not take over from its parent. */
static void forget(void)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &recursive);
	munmap(oracle, sizeof(*oracle));
	memset(rows, 0, sizeof(rows));
	process_initialized = false;
	state_forget_locks();
	context_reset_all();
	memory_forget();
	callback_forget();
	visible_reset();
}

static void reinit_attach_lock(void)
{
	pthread_mutex_init(&attach_lock, NULL);
}

static void attach(void)
{
	pthread_mutex_lock(&attach_lock);
	if (!guard) {
		guard = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
		madvise(guard, 4096, MADV_WIPEONFORK);
		pthread_atfork(NULL, NULL, reinit_attach_lock);
	}
	if (!guard->attached) {
		u64 parent = oracle ? oracle->pid : 0;

		if (state_attach()) {
			fprintf(stderr,
				"simulated driver: cannot use the state file %s: %s; remove it, or "
				"set "
				"GPUGAUGE_SIM_STATE\n",
				state_path(), strerror(errno));
			_exit(70);
		}
		if (oracle)
			forget();
		process_start_ns = now_ns();
		process_generation++;
		oracle = oracle_create(parent);
		if (!oracle) {
			fprintf(stderr, "simulated driver: cannot write the oracle of %s: %s\n",
				state_path(), strerror(errno));
			_exit(70);
		}
		__atomic_store_n(&guard->attached, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&attach_lock);
}

/* The row of truth of this process on a device, made at its first use. */
struct sim_row *process_row(u32 device)
{
	struct sim_row *row = __atomic_load_n(&rows[device], __ATOMIC_ACQUIRE);
	u32 at;

	if (row)
		return row;
	process_lock();
	for (at = 0; !rows[device]; at = (at + 1) % SIM_ROWS) {
		u64 unused = 0;

		if (at == SIM_ROWS - 1)
			at = 0; /* full: tests make a new state file long before */
		row = &sim->rows[at];
		if (!__atomic_compare_exchange_n(&row->used, &unused, 1, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		row->pid = (u64)getpid();
		row->start_ns = process_start_ns;
		row->device = device;
		__atomic_store_n(&rows[device], row, __ATOMIC_RELEASE);
	}
	process_unlock();
	return rows[device];
}

static int answer_injected(void)
{
	return (int)sim_thread.injected;
}

static int answer_uninitialized(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static int answer_unsupported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Return true if the control row of this function holds an answer for this call. */
static bool injected(struct sim_control *control)
{
	const struct timespec millisecond = {0, 1000000};
	u64 remaining;

	while (__atomic_load_n(&control->hang, __ATOMIC_RELAXED))
		nanosleep(&millisecond, NULL);
	if (control->delay_ns)
		pause_ns(control->delay_ns);
	remaining = __atomic_load_n(&control->remaining, __ATOMIC_RELAXED);
	while (remaining && remaining != UINT64_MAX)
		if (__atomic_compare_exchange_n(&control->remaining, &remaining, remaining - 1,
						false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break;
	sim_thread.injected = (u32)control->code;
	return remaining != 0;
}

void *sim_enter(u32 index)
{
	const struct sim_name *name = &sim_names[index];

	if (!guard || !__atomic_load_n(&guard->attached, __ATOMIC_ACQUIRE))
		attach();
	thread_id();
	ADD(oracle->symbols[index].entered, 1);
	if (injected(&sim->controls[index]))
		return (void *)answer_injected;
	sim_thread.per_thread_default = name->per_thread;
	if (!name->implementation)
		return (void *)answer_unsupported;
	if (!process_initialized && !name->before_init)
		return (void *)answer_uninitialized;
	return name->implementation;
}

void sim_leave(u32 index, u32 code)
{
	struct sim_symbol *symbol = &oracle->symbols[index];
	u32 at;

	if (!code) {
		ADD(symbol->succeeded, 1);
		return;
	}
	for (at = 0; at < SIM_CODES - 1; at++) {
		u64 found = 0;

		if (__atomic_compare_exchange_n(&symbol->codes[at].code, &found, code, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		    found == code)
			break;
	}
	if (at == SIM_CODES - 1)
		symbol->codes[at].code = UINT64_MAX; /* more codes than slots: summed */
	ADD(symbol->codes[at].calls, 1);
}

/* Tells this library apart from a real driver: the version of its state. */
__attribute__((visibility("default"))) int gpugauge_simulated_driver(void)
{
	return SIM_VERSION;
}

/* Make the state file with this process's settings, without a row of its own in the oracle. */
__attribute__((visibility("default"))) int gpugauge_simulated_create(void)
{
	return state_attach();
}
