/* Putting work on a context's queue and waiting for it. */
#include "sim.h"

bool queue_done(u32 number, u64 seq, u64 *done_ns)
{
	const struct sim_channel *channel = &sim->channels[number];
	u64 when;

	if (!seq || !channel->used)
		return true;
	if (seq + SIM_RING < channel->tail)
		return true; /* its place in the ring was used again */
	when = device_item(number, seq)->done_ns;
	if (when && done_ns)
		*done_ns = when;
	return when != 0;
}

/* Is one item done, or all up to it of the streams that a scope covers? */
bool queue_over(u32 number, u64 seq, u32 scope)
{
	const struct sim_channel *channel = &sim->channels[number];
	u64 at;

	if (!channel->used || channel->head > seq)
		return true;
	if (scope == SCOPE_OWN)
		return queue_done(number, seq, NULL);
	for (at = channel->head; at <= seq; at++) {
		const struct sim_item *item = device_item(number, at);

		if (!item->done_ns && (scope == SCOPE_LEGACY || item->scope != SCOPE_OWN))
			return false;
	}
	return true;
}

/* Wait until that is so. The caller counts the time. */
void queue_wait_scope(u32 channel, u64 seq, u32 scope)
{
	while (seq) {
		u64 left;

		state_lock();
		device_advance_all(now_ns());
		if (queue_over(channel, seq, scope)) {
			state_unlock();
			return;
		}
		left = device_remaining_ns(channel, seq);
		state_unlock();
		pause_ns(left < 2000 ? 2000 : left);
	}
}

void queue_wait(u32 channel, u64 seq)
{
	queue_wait_scope(channel, seq, SCOPE_OWN);
}

void queue_complete(u32 number, u64 seq)
{
	struct sim_channel *channel = &sim->channels[number];
	struct sim_item *item = device_item(number, seq);

	state_lock();
	device_advance_all(now_ns());
	if (channel->used && !item->done_ns) {
		item->kind = ITEM_MARK;
		item->remaining_ns = 0;
		if (channel->blocked_items)
			channel->blocked_items--;
		device_advance_all(now_ns());
	}
	state_unlock();
}

bool queue_host_ready(u32 number, u64 seq)
{
	struct sim_channel *channel = &sim->channels[number];
	bool ready;

	state_lock();
	device_advance_all(now_ns());
	ready = !channel->used || device_item(number, seq)->ready;
	state_unlock();
	return ready;
}

static u32 scope_of(const struct stream *stream)
{
	if (stream == &stream->context->legacy)
		return SCOPE_LEGACY;
	return stream->flags & 1 ? SCOPE_OWN : SCOPE_BLOCKING;
}

static void push(struct stream *stream, u32 kind, u64 duration_ns, u64 now, u64 wait[2])
{
	struct sim_channel *channel = &sim->channels[stream->context->channel];
	struct sim_row *row = &sim->rows[channel->row];
	struct sim_item *item = device_item(stream->context->channel, channel->tail);

	*item = (struct sim_item){
		.remaining_ns = duration_ns,
		.stream = stream->id,
		.scope = scope_of(stream),
		.kind = kind,
		.wait_channel = wait[0],
		.wait_seq = wait[1],
	};
	if (row->outstanding++ == 0 && row->first_submit_ns && now > row->empty_since_ns)
		row->idle_ns += now - row->empty_since_ns;
	if (!row->first_submit_ns)
		row->first_submit_ns = now;
	row->last_submit_ns = now;
	row->submissions++;
	if (kind == ITEM_LAUNCH)
		channel->launches++;
	if (kind == ITEM_HOST || kind == ITEM_WAIT)
		channel->blocked_items++;
	stream->last = channel->tail;
	stream->context->last = channel->tail;
	if (!(stream->flags & 1))
		stream->context->last_blocking = channel->tail;
	channel->tail++;
}

static bool full(const struct sim_channel *channel, u32 kind)
{
	return channel->tail - channel->head >= SIM_RING - 1 ||
	       (kind == ITEM_LAUNCH && channel->launches >= sim->config.queue_depth);
}

static int submit(struct stream *stream, u32 kind, u64 duration_ns, u64 wait[2], u64 *seq)
{
	u32 number = stream->context->channel;
	struct sim_channel *channel = &sim->channels[number];
	u64 blocked_at = 0, now;

	state_lock();
	now = now_ns();
	device_advance_all(now);
	while (channel->used && full(channel, kind)) {
		u64 left = device_remaining_ns(number, channel->head);

		state_unlock();
		if (!blocked_at)
			blocked_at = now;
		pause_ns(left < 1000 ? 1000 : left);
		state_lock();
		now = now_ns();
		device_advance_all(now);
	}
	if (!channel->used) {
		state_unlock();
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (blocked_at) {
		struct sim_row *row = &sim->rows[channel->row];

		ADD(row->blocked_launch_queue_ns, now - blocked_at);
		ADD(row->blocked_launches, 1);
	}
	push(stream, kind, duration_ns, now, wait);
	if (seq)
		*seq = channel->tail - 1;
	state_unlock();
	return CUDA_SUCCESS;
}

int queue_submit(struct stream *stream, u32 kind, u64 duration_ns, u64 *seq)
{
	u64 none[2] = {0, 0};

	return submit(stream, kind, duration_ns, none, seq);
}

int queue_submit_wait(struct stream *stream, u32 channel, u64 seq)
{
	u64 wait[2] = {channel + 1, seq};

	return submit(stream, ITEM_WAIT, 0, wait, NULL);
}

/* What a submission costs its caller, whatever the device does. */
void issue_cost(void)
{
	if (sim->config.issue_ns)
		pause_ns(sim->config.issue_ns);
}
