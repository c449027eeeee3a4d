/* The state file: mapped by every process, locked by a mutex that survives its owner's death. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

struct sim_state *sim;
static int lock_fd = -1;
static bool mine[SIM_CHANNELS];

u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

/* Sleep for the long part, spin for the rest: two CPUs must do for many processes. */
void pause_ns(u64 ns)
{
	const u64 wake_ns = 25000; /* a sleep ends about this late, with the least timer slack */
	u64 end = now_ns() + ns;

	if (ns > 2 * wake_ns) {
		u64 sleep_ns = ns - wake_ns;
		struct timespec time = {(time_t)(sleep_ns / 1000000000ull),
					(long)(sleep_ns % 1000000000ull)};

		nanosleep(&time, NULL);
	}
	while (now_ns() < end)
		__builtin_ia32_pause();
}

const char *state_path(void)
{
	const char *path = getenv("GPUGAUGE_SIM_STATE");

	return path && *path ? path : "/dev/shm/gpugauge-sim";
}

static u64 setting(const char *field, u64 standard)
{
	char name[80] = "GPUGAUGE_SIM_";
	size_t at = strlen(name);
	const char *value;

	for (; *field && at + 1 < sizeof(name); field++)
		name[at++] = (char)toupper((unsigned char)*field);
	name[at] = 0;
	value = getenv(name);
	return value && *value ? strtoull(value, NULL, 0) : standard;
}

static void configure(struct sim_config *config)
{
	config->issue_ns = 4000;
	config->queue_depth = 1024;
	config->slice_ns = 2000000;
	config->launch_ns = 5000;
	config->graph_node_gap_ns = 1000;
	config->copy_latency_ns = 2000;
	config->pageable_htod_mb_per_s = 7000;
	config->pageable_dtoh_mb_per_s = 2200;
	config->pinned_mb_per_s = 50000;
	config->dtod_mb_per_s = 2000000;
	config->staged_bytes = 65536;
	config->data_bytes = 65536;
	config->chunk_bytes = 2 << 20;
	config->context_bytes = 554000000;
	config->allocate_ns = 100000;
	config->free_ns = 30000;
	config->device_count = 1;
	config->device_bytes = 150754820096ull;
	config->reserved_bytes = 640000000;
	config->driver_version = 13000;
#define FROM_ENVIRONMENT(name) config->name = setting(#name, config->name);
	SIM_CONFIG_FIELDS(FROM_ENVIRONMENT)
}

static void make_devices(struct sim_state *state)
{
	const u64 high = 0x5160000000004000ull, low = 0x8000000000000000ull;
	u64 physical = state->config.device_count, each = state->config.mig_instances;
	u64 at = 0, parent, part;

	for (parent = 0; parent < physical && at < SIM_DEVICES; parent++) {
		for (part = 0; part < (each ? each : 1) && at < SIM_DEVICES; part++, at++) {
			struct sim_device *device = &state->devices[at];

			device->parent = parent;
			device->parent_high = high;
			device->parent_low = low + parent + 1;
			device->uuid_high = high;
			device->uuid_low = device->parent_low + (each ? (part + 1) << 32 : 0);
			device->mig = each != 0;
			device->total_bytes = state->config.device_bytes / (each ? each : 1);
			device->clock_ns = now_ns();
		}
	}
}

static void create(struct sim_state *state)
{
	pthread_mutexattr_t attributes;

	configure(&state->config);
	make_devices(state);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&state->lock.mutex, &attributes);
	state->header.magic = SIM_MAGIC;
	state->header.version = SIM_VERSION;
	state->header.symbol_count = sim_name_count;
	__atomic_store_n(&state->header.ready, 1, __ATOMIC_RELEASE);
}

int state_attach(void)
{
	char path[512];
	struct sim_state *state;
	int fd;

	if (!sim) {
		fd = open(state_path(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0)
			return -1;
		flock(fd, LOCK_EX);
		if (ftruncate(fd, sizeof(struct sim_state))) {
			close(fd);
			return -1;
		}
		state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (state != MAP_FAILED && !state->header.ready)
			create(state);
		flock(fd, LOCK_UN);
		close(fd);
		if (state == MAP_FAILED)
			return -1;
		if (state->header.version != SIM_VERSION) {
			munmap(state, sizeof(*state));
			errno = EPROTO; /* of another version of this library */
			return -1;
		}
		sim = state;
	}
	if (lock_fd < 0) {
		snprintf(path, sizeof(path), "%s.lock", state_path());
		lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	}
	return lock_fd < 0 ? -1 : 0;
}

void state_lock(void)
{
	if (pthread_mutex_lock(&sim->lock.mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&sim->lock.mutex);
}

void state_unlock(void)
{
	pthread_mutex_unlock(&sim->lock.mutex);
}

/*
 * A POSIX record lock of one byte per channel tells whether its process still
 * lives, and its pid as the asker's pid namespace numbers it. fork() does not
 * hand it on, and it goes with the process however that ends.
 */
static int record_lock(int command, u32 channel, short type, struct flock *lock)
{
	*lock = (struct flock){.l_type = type, .l_start = channel, .l_len = 1};
	return fcntl(lock_fd, command, lock);
}

int state_channel_lock(u32 channel)
{
	struct flock lock;

	if (record_lock(F_SETLK, channel, F_WRLCK, &lock))
		return -1;
	mine[channel] = true;
	return 0;
}

void state_channel_unlock(u32 channel)
{
	struct flock lock;

	mine[channel] = false;
	record_lock(F_SETLK, channel, F_UNLCK, &lock);
}

bool state_channel_mine(u32 channel)
{
	return mine[channel];
}

void state_forget_locks(void)
{
	memset(mine, 0, sizeof(mine));
}

bool state_channel_alive(u32 channel, int *pid)
{
	struct flock lock;

	if (mine[channel]) {
		*pid = getpid();
		return true;
	}
	if (record_lock(F_GETLK, channel, F_WRLCK, &lock) || lock.l_type == F_UNLCK)
		return false;
	*pid = lock.l_pid;
	return true;
}
