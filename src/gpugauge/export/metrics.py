"""The metrics: one row each. docs/metrics.md and the exposition are written from this table.

To add one, add a row; `make generate` renews the document and the golden file.
"""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import DEVICE, OWNER, WORKLOAD, Certainty, Kind, Metric
from gpugauge.model.abi import Loss, Slot
from gpugauge.units import seconds

COUNTER, GAUGE, HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
LOWER_BOUND, ESTIMATE = Certainty.LOWER_BOUND, Certainty.ESTIMATE

SEEN = (
    "A process that ran before the probes were there is counted from then on only; "
    "`gpugauge_agent_incomplete_processes` tells how many there are."
)

NEVER = "No case is known."

METRICS: tuple[Metric, ...] = (
    # ---- demand ----------------------------------------------------------------
    Metric(
        name="launches_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="Launches of GPU functions.",
        samples=of.calls(Slot.LAUNCH),
        meaning="Calls that put one function on the GPU: the demand of the workload. Launches "
        "recorded into a graph are not demand and not counted here; replaying the graph is "
        "`gpugauge_graph_launches_total`.",
        wrong_when=SEEN,
    ),
    Metric(
        name="graph_launches_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="Launches of whole CUDA graphs.",
        samples=of.calls(Slot.GRAPH_LAUNCH),
        meaning="One call that replays a recorded graph. Shown beside single launches and never "
        "added to them, because one such call may be a thousand GPU functions or one.",
        wrong_when=SEEN,
    ),
    Metric(
        name="graph_kernels_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="GPU functions inside launched graphs whose content is known.",
        samples=of.known(lambda s: s.graph_launch_nodes),
        certainty=LOWER_BOUND,
        meaning="Each launch of a graph adds the launch nodes of that graph, as they were counted "
        "while it was captured or built.",
        wrong_when="Graphs made before the probes were there, with conditional nodes, or that "
        "launch from the device add nothing; `gpugauge_graph_launches_unknown_total` counts "
        "their launches. Nodes switched off in an executable graph still count, and so does "
        "real work that the capturing thread puts on another stream meanwhile: then it is above.",
    ),
    Metric(
        name="graph_launches_unknown_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="Launches of graphs whose content is not known.",
        samples=of.known(lambda s: s.graph_launches_unknown),
        meaning="A subset of `gpugauge_graph_launches_total`. While it does not move, "
        "`gpugauge_graph_kernels_total` is exact.",
        wrong_when=SEEN,
    ),
    Metric(
        name="launch_threads_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="GPU threads launched, grid times block.",
        samples=of.known(lambda s: s.launch_threads),
        option="launch_threads",
        meaning="Divided by `gpugauge_launches_total` it is the mean size of a launch. A size says "
        "nothing about time: one thread may loop for a second.",
        wrong_when="A launch whose configuration could not be read counts as a launch without "
        "threads; `gpugauge_agent_lost_updates_total` counts these under `size_unreadable`.",
    ),
    # ---- back pressure ---------------------------------------------------------
    Metric(
        name="blocked_seconds_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "cause"),
        help="Host time spent waiting for the GPU, summed over threads, by cause.",
        samples=of.by_cause(lambda s, cause: seconds(s.blocked_ns.get(cause, 0))),
        certainty=ESTIMATE,
        meaning="`synchronize`: inside a call that waits for the GPU by nature, its whole "
        "duration. `copy`: inside copies, for those that may return early only what is "
        "beyond twice the learned cost of issuing one. `launch_queue`: inside launches while "
        "the queue of the GPU was full, which is how a loop that never synchronizes feels a "
        "saturated GPU. `allocation`: inside allocations and frees that had to wait. "
        "`launch_other`: launches that took long for another reason, such as loading code. Two "
        "threads that wait for a second are two seconds.",
        wrong_when="`synchronize` is exact. `launch_queue` subtracts the learned issue cost, and "
        "errs by a few points where the host and not the GPU is the limit. Python threads also "
        "wait for the interpreter's lock, outside any call: with two of them the queue reads "
        "lower than wall time less issue time, and rightly so. A thread "
        "that the CPU quota stops inside a launch looks blocked: compare "
        "`gpugauge_cpu_throttled_seconds_total`. Calls still open are in "
        "`gpugauge_inflight_blocked_seconds`, not here; a call whose thread dies inside it is "
        "added here at that moment, though no call is counted.",
    ),
    Metric(
        name="inflight_blocked_seconds",
        kind=GAUGE,
        labels=(*WORKLOAD, "cause"),
        help="Age of the blocking calls that have not returned, summed over threads, by cause.",
        samples=of.workload(of.open_calls),
        meaning="A call that never returns never reaches `gpugauge_blocked_seconds_total`; here "
        "it rises by a second a second. A value far above the usual step time is a hang. A "
        "cause appears once it has occurred.",
        wrong_when="A call left by longjmp counts as open until its thread calls again or ends.",
    ),
    Metric(
        name="launch_issue_seconds",
        kind=GAUGE,
        labels=WORKLOAD,
        help="Learned cost of issuing one launch while the queue is not full.",
        samples=of.known(lambda s: None if s.issue_ns is None else seconds(s.issue_ns)),
        certainty=ESTIMATE,
        meaning="A trimmed mean over launches made shortly after the GPU had been drained. When it "
        "rises while the GPU does the same work, the host is slower: frequency, neighbours on "
        "the CPU, or a tool that slows calls down.",
        wrong_when="Absent until a hundred such launches are known. It contains some of the cost "
        "of the probes: what lies between reading the clock at entry and at return.",
    ),
    Metric(
        name="sync_calls_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="Calls that wait for the GPU: stream, context and event synchronizations.",
        samples=of.calls(Slot.SYNCHRONIZE),
        meaning="How often the host stops for the GPU. With the blocked time it gives the mean "
        "wait; many a second with short waits is a program that synchronizes too often.",
        wrong_when=SEEN,
    ),
    Metric(
        name="poll_calls_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "ready"),
        help="Questions whether the GPU is done, by the answer.",
        samples=of.workload(
            lambda s: (
                (("true",), s.operations.get(Slot.POLL_READY, of.NO_CALLS).calls),
                (("false",), s.operations.get(Slot.POLL_NOT_READY, of.NO_CALLS).calls),
            )
        ),
        meaning='A program that asks instead of waiting burns a CPU core: many `ready="false"` '
        "are waiting that `gpugauge_blocked_seconds_total` cannot show.",
        wrong_when=SEEN,
    ),
    # ---- time ------------------------------------------------------------------
    Metric(
        name="process_seconds_total",
        kind=COUNTER,
        labels=OWNER,
        help="Time for which processes with GPU calls were observed.",
        samples=of.owner_time(lambda t: t.observed_ns),
        meaning="The denominator of every share of time: two processes observed for a second are "
        "two process-seconds.",
        wrong_when="Begins at a process's first traced call, not at its start.",
    ),
    Metric(
        name="process_time_seconds_total",
        kind=COUNTER,
        labels=(*OWNER, "state"),
        help="Observed process time, split by who waited for whom.",
        samples=of.time_split,
        certainty=LOWER_BOUND,
        meaning="`host_waits`: at least one thread waited for the GPU. `gpu_waits`: nothing was "
        "outstanding on the GPU, so it waited for this process. `overlapped`: both worked. "
        "`unobserved`: not known. The four add up to `gpugauge_process_seconds_total`.",
        wrong_when="`host_waits` and `gpu_waits` are lower bounds, so `overlapped` is an upper "
        "one. On a shared GPU, `gpu_waits` says that this process gave it nothing, not that "
        "the GPU was idle.",
    ),
    Metric(
        name="blocked_wall_seconds_total",
        kind=COUNTER,
        labels=OWNER,
        help="Time in which at least one thread of a process waited for the GPU.",
        samples=of.owner_time(lambda t: t.host_waits_ns),
        certainty=LOWER_BOUND,
        meaning='The "some" of pressure stall information, for the GPU. Divided by '
        "`gpugauge_process_seconds_total` it is the share of time under back pressure.",
        wrong_when="Waits inside launches and copies are learned at their return and counted only "
        "where no other thread waited, so it never exceeds the truth.",
    ),
    Metric(
        name="known_idle_seconds_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="Time in which a process is known to have had nothing outstanding on the device.",
        samples=of.known(lambda s: None if s.known_idle_ns is None else seconds(s.known_idle_ns)),
        certainty=LOWER_BOUND,
        meaning="From a synchronization that drained all that was submitted to the next "
        "submission: the GPU waited for this process.",
        wrong_when="A bound and not a measure: tight for programs that starve the GPU or call "
        "seldom, loose for those limited by their launches: between short launches the GPU is "
        "idle, but nobody waited and saw it. Work on several streams is known to be over only "
        "when the whole context was waited for. A copy between devices by unified addresses "
        "counts as work of the device whose stream it is on, and not of the other one: there it "
        "is idle though it copies. Absent, never 0, where submissions are not all seen. Idle of "
        "one process is not idle of a shared GPU.",
    ),
    # ---- transfers -------------------------------------------------------------
    Metric(
        name="copies_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "direction"),
        help="Copies, by direction.",
        samples=of.copies(lambda operation: operation.calls),
        meaning="`htod` is host to device, `dtoh` back, `dtod` within a device, `peer` between "
        "devices, `unknown` where the call does not say. A direction appears once it is used.",
        wrong_when="Unified addresses hide the direction. Copies inside graphs are not counted.",
    ),
    Metric(
        name="copy_bytes_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "direction"),
        help="Bytes submitted for copying, by direction.",
        samples=of.copies(lambda operation: operation.bytes),
        meaning="Counted when the copy is submitted, not when it is done. Divided by "
        "`gpugauge_copies_total` it is the mean size: many small ones waste the bus.",
        wrong_when="Batched three-dimensional copies count without bytes. Managed memory moves "
        "without any call.",
    ),
    Metric(
        name="sets_total",
        kind=COUNTER,
        labels=WORKLOAD,
        help="Calls that fill device memory with a value.",
        samples=of.calls(Slot.SET),
        meaning="They occupy the GPU and are submissions like launches.",
        wrong_when=SEEN,
    ),
    # ---- memory ----------------------------------------------------------------
    Metric(
        name="memory_requested_bytes",
        kind=GAUGE,
        labels=(*WORKLOAD, "family"),
        help="Memory of live allocations, as requested, by family.",
        samples=of.memory(lambda m: m.requested_bytes),
        certainty=LOWER_BOUND,
        meaning="What the program asked for and has not freed: `device`, `managed`, `pool`, "
        "`virtual`, `array`, and on the host `host` and `host_registered`.",
        wrong_when="Exact while `gpugauge_agent_untracked_allocations_total` stands still; memory "
        "that a graph allocates or frees, and the bytes above the first level of a mipmapped "
        "array, are not seen. Absent "
        "for workloads with a process not seen from its start. A framework with an allocator "
        "of its own requests large blocks and divides them itself.",
    ),
    Metric(
        name="memory_requested_peak_bytes",
        kind=GAUGE,
        labels=(*WORKLOAD, "family"),
        help="Highest requested memory so far, by family.",
        samples=of.memory(lambda m: m.peak_bytes),
        certainty=ESTIMATE,
        meaning="What the workload needed at its worst moment, also when that lay between scrapes.",
        wrong_when="The peaks of several processes, or of several contexts of one, are added "
        "though they may not coincide.",
    ),
    Metric(
        name="memory_held_bytes",
        kind=GAUGE,
        labels=WORKLOAD,
        help="Device memory held, by NVML.",
        samples=of.known(lambda s: s.memory_held_bytes),
        meaning="What is missing for others. Above the requested memory by the context, by "
        "granularity of 2 MiB, and by what the driver keeps in its own pool.",
        wrong_when="Absent where NVML does not list the process, under MPS for one.",
    ),
    Metric(
        name="allocations_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "family"),
        help="Successful allocations, by family.",
        samples=of.memory(lambda m: m.allocations),
        meaning="A steady rate inside a training loop is a program without a caching allocator; "
        "allocations may wait for the whole device.",
        wrong_when="Absent for workloads with a process not seen from its start.",
    ),
    Metric(
        name="frees_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "family"),
        help="Allocations given back, by family.",
        samples=of.memory(lambda m: m.frees),
        meaning="Allocations less frees are the live ones; a difference that only grows is a leak.",
        wrong_when="What dies with its context or process is not a free.",
    ),
    Metric(
        name="contexts",
        kind=GAUGE,
        labels=WORKLOAD,
        help="Live CUDA contexts.",
        samples=of.known(lambda s: s.contexts),
        meaning="Each holds some hundred megabytes of device memory. Green contexts are counted "
        "too, though they share the primary one's.",
        wrong_when="Contexts made before the probes were there are not known.",
    ),
    # ---- errors ----------------------------------------------------------------
    Metric(
        name="errors_total",
        kind=COUNTER,
        labels=(*WORKLOAD, "op", "code"),
        help="Failed driver calls, by operation and CUresult.",
        samples=of.workload(of.errors),
        meaning="2 is out of memory, 700 an illegal address, 719 a failed launch. Code `other` "
        "holds codes outside CUresult, and what is beyond the eight most frequent.",
        wrong_when="Functions without a return probe have no errors. Errors of asynchronous work "
        "appear in a later call.",
    ),
    # ---- distribution: last of a workload, for it takes ten series a cause ------
    Metric(
        name="blocked_duration_seconds",
        kind=HISTOGRAM,
        labels=(*WORKLOAD, "cause"),
        help="Duration of single blocking calls, by cause.",
        samples=of.workload(of.durations),
        meaning="Many short waits and few long ones have the same sum and different remedies. "
        "Eight buckets, from 16 us to 1.1 s, each four to sixteen times the one before; a "
        "cause appears once it has occurred.",
        wrong_when="Quantiles are no finer than the buckets.",
    ),
    # ---- contention ------------------------------------------------------------
    Metric(
        name="device_processes",
        kind=GAUGE,
        labels=(*DEVICE, "state"),
        help="Processes on the device, by what they do there.",
        samples=of.device_use(
            lambda use: (
                (("context",), use.processes_with_context),
                (("active",), use.processes_active),
                (("claimed",), use.processes_claimed),
            )
        ),
        meaning="`context`: has a context on it. `active`: submitted or waited since the last "
        "tick. `claimed`: says so, but NVML does not list it there; never used to blame anybody.",
        wrong_when="Graphics processes and those of another PID namespace host are not traced.",
    ),
    Metric(
        name="device_pods",
        kind=GAUGE,
        labels=DEVICE,
        help="Pods with a process on the device.",
        samples=of.device_use(lambda use: (((), use.pods),)),
        meaning="Two or more share it: they take turns, and memory and faults are common.",
        wrong_when="Processes that could not be resolved to a pod are not counted.",
    ),
    Metric(
        name="entitled_gpus",
        kind=GAUGE,
        labels=(*OWNER, "resource"),
        help="Devices that the kubelet gave to the container, by resource.",
        samples=lambda view: view.entitled.items(),
        meaning="Beside use it shows who uses a GPU without having asked, and who holds one "
        "without using it.",
        wrong_when="Absent where the kubelet's PodResources socket is not reachable. A replica of "
        "a shared device counts as one.",
    ),
    Metric(
        name="entitlement_gap",
        kind=GAUGE,
        labels=(*WORKLOAD, "kind"),
        help="1 where what a container uses differs from what the kubelet gave it.",
        samples=lambda view: view.gaps.items(),
        meaning="`not_entitled`: it submits work to a device that its pod was not given; whoever "
        "was given it pays for that. `not_used`: its pod holds the device for two minutes or more, "
        "and no process of the pod has submitted work to it since the agent started.",
        wrong_when="Absent while `gpugauge_agent_entitlements_up` is 0, and for devices whose "
        "UUID is not known. Devices of resource names or DRA drivers that the settings do not "
        "name are not seen as given. After a restart of the agent earlier use is forgotten.",
    ),
    Metric(
        name="device_info",
        kind=GAUGE,
        labels=(
            *DEVICE,
            "UUID",
            "pci_bus_id",
            "compute_mode",
            "mig_profile",
            "mig_parent_uuid",
            "driver_version",
            "cuda_version",
        ),
        help="What the device is; always 1.",
        samples=of.device_info,
        meaning="For joins. `UUID` repeats `gpu_uuid` in the spelling of dcgm-exporter.",
        wrong_when="Absent while NVML does not answer.",
    ),
    Metric(
        name="device_memory_capacity_bytes",
        kind=GAUGE,
        labels=DEVICE,
        help="Memory of the device.",
        samples=of.device(lambda d: d.memory_total_bytes),
        meaning="By NVML.",
        wrong_when="Absent where NVML does not say.",
    ),
    Metric(
        name="device_memory_used_bytes",
        kind=GAUGE,
        labels=DEVICE,
        help="Memory of the device in use, by whomever.",
        samples=of.device(lambda d: d.memory_used_bytes),
        meaning="By NVML. More than the held memory of all workloads together means that "
        "somebody untraced is on the device.",
        wrong_when="Absent where NVML does not say.",
    ),
    Metric(
        name="device_memory_reserved_bytes",
        kind=GAUGE,
        labels=DEVICE,
        help="Memory of the device that the driver keeps for itself.",
        samples=of.device(lambda d: d.memory_reserved_bytes),
        meaning="By NVML. No workload can have it.",
        wrong_when="Absent where NVML does not say.",
    ),
    Metric(
        name="device_utilization_ratio",
        kind=GAUGE,
        labels=DEVICE,
        help="Share of time in which anything at all ran on the device, from 0 to 1.",
        samples=of.device(lambda d: d.utilization_ratio),
        certainty=ESTIMATE,
        meaning="By NVML. One thread on one of its processors makes it 1: it says busy, not full.",
        wrong_when="Absent under MIG. A sample of the driver's own choosing.",
    ),
    Metric(
        name="workload_info",
        kind=GAUGE,
        labels=(*OWNER, "workload_kind"),
        help="What kind of workload the owner belongs to; always 1.",
        samples=of.workload_info,
        meaning="Deployment, StatefulSet, Job and so on, for joins.",
        wrong_when="Empty while the API server was never reachable.",
    ),
    # ---- the host --------------------------------------------------------------
    Metric(
        name="cpu_throttled_seconds_total",
        kind=COUNTER,
        labels=OWNER,
        help="Time for which the CPU quota stopped the container.",
        samples=of.host(
            lambda h: None if h.cpu_throttled_ns is None else seconds(h.cpu_throttled_ns)
        ),
        meaning="A starved GPU with this rising is a container with too small a CPU limit.",
        wrong_when="Absent without a quota or without cgroup statistics.",
    ),
    Metric(
        name="cpu_quota_cores",
        kind=GAUGE,
        labels=OWNER,
        help="CPU cores that the container may use.",
        samples=of.host(lambda h: h.cpu_quota_cores),
        meaning="Its CPU limit, as Linux enforces it.",
        wrong_when="Absent where there is no limit.",
    ),
    Metric(
        name="cpu_seconds_total",
        kind=COUNTER,
        labels=OWNER,
        help="CPU time used by the container.",
        samples=of.host(lambda h: None if h.cpu_used_ns is None else seconds(h.cpu_used_ns)),
        meaning="Of everything in its cgroup, GPU or not.",
        wrong_when="Absent where the cgroup cannot be read.",
    ),
    Metric(
        name="pressure_seconds_total",
        kind=COUNTER,
        labels=(*OWNER, "resource"),
        help="Time in which some task of the container was stalled, by resource.",
        samples=of.pressure,
        meaning="Pressure stall information of its cgroup, for `cpu`, `io` and `memory`. Input "
        "that comes too slowly shows as `io`.",
        wrong_when="Absent where Linux was built or started without PSI, and on cgroup v1.",
    ),
    # ---- diagnosis -------------------------------------------------------------
    Metric(
        name="finding",
        kind=GAUGE,
        labels=(*WORKLOAD, "rule", "severity"),
        help="1 while the diagnosis has this finding open.",
        samples=of.findings,
        certainty=ESTIMATE,
        meaning="docs/rules.md has a paragraph for each rule: what it means and what to do.",
        wrong_when="As its rule says.",
    ),
    # ---- the agent itself ------------------------------------------------------
    Metric(
        name="agent_up",
        kind=GAUGE,
        labels=(),
        help="1 while the agent runs.",
        samples=of.agent(lambda _: 1.0),
        meaning="Alert on its absence.",
        wrong_when="Stays 1 while the tick stalls; /healthz then fails.",
    ),
    Metric(
        name="agent_ready",
        kind=GAUGE,
        labels=(),
        help="1 after the first scan for driver libraries.",
        samples=of.agent(lambda a: float(a.ready)),
        meaning="What /readyz answers.",
        wrong_when="Ready is not attached: see `gpugauge_agent_probes`.",
    ),
    Metric(
        name="agent_info",
        kind=GAUGE,
        labels=("version", "attach_mode", "linux_version", "node"),
        help="Versions, the attach mode and the node; always 1.",
        samples=of.agent_info,
        meaning="For joins and for reading old recordings.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_libraries",
        kind=GAUGE,
        labels=(),
        help="Driver libraries with probes in them.",
        samples=of.agent(lambda a: a.libraries),
        meaning="Usually one; containers that bring a driver library of their own add one each.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_probes",
        kind=GAUGE,
        labels=("state",),
        help="Probe sites by state.",
        samples=of.agent_table(lambda a: a.probes),
        meaning="`attached`; `refused` for lack of a legal site; `failed` where Linux refused; "
        "`skipped` where the attach mode takes only the core functions.",
        wrong_when="A function missing in an older driver is in no state.",
    ),
    Metric(
        name="agent_probe_hits_total",
        kind=COUNTER,
        labels=(),
        help="Probe hits, entries and returns.",
        samples=of.agent(lambda a: a.hits),
        meaning="Times half of `gpugauge_agent_probe_cost_seconds` it is the time added to all "
        "traced processes together.",
        wrong_when="Nested calls are hits too.",
    ),
    Metric(
        name="agent_probe_cost_seconds",
        kind=GAUGE,
        labels=(),
        help="Time that entry and return together add to one call, measured at start.",
        samples=of.agent(
            lambda a: None if a.probe_cost_ns is None else a.probe_cost_ns / 1_000_000_000
        ),
        certainty=ESTIMATE,
        meaning="Measured on this host in a child of the agent, with programs that only count.",
        wrong_when="The real programs take more, about 0.2 to 0.7 us a call: they read the clock "
        "and the arguments. Under load and on other CPUs it differs.",
    ),
    Metric(
        name="agent_duplicate_hits_total",
        kind=COUNTER,
        labels=(),
        help="Hits that a second link on the same file reported, not counted.",
        samples=of.agent(lambda a: a.losses.get(Loss.DUPLICATE_HITS, 0)),
        meaning="Two overlay mounts show one file twice; the younger link is closed.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_abandoned_calls_total",
        kind=COUNTER,
        labels=(),
        help="Calls that never returned because the thread jumped out of them.",
        samples=of.agent(lambda a: a.losses.get(Loss.ABANDONED_CALLS, 0)),
        meaning="By longjmp, an exception, or a switched stack. Their durations are not known.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_lost_updates_total",
        kind=COUNTER,
        labels=("reason",),
        help="Updates that were lost, by reason.",
        samples=of.losses(*of.LOST_UPDATES),
        meaning="`*_full`: a map had no room. `quota`: one container wanted more than its share. "
        "`*_unreadable`, `size_refused`: an argument could not be read or made no sense; the "
        "call counts, its size or stream is unknown. `state_contended`, `depth`: idle or device "
        "became unknown for a moment. `free_slots`: a process slot was not given back.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_lost_events_total",
        kind=COUNTER,
        labels=("reason",),
        help="Events that did not fit into the ring buffer, by reason.",
        samples=of.losses(*of.LOST_EVENTS),
        meaning="Nothing counted is lost: what an event says is rebuilt from the maps at the tick.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_untracked_allocations_total",
        kind=COUNTER,
        labels=("reason",),
        help="Allocations and frees that could not be tracked, by reason.",
        samples=of.losses(*of.UNTRACKED_ALLOCATIONS),
        meaning="`allocations_full` makes requested memory a lower bound. `pointer_unknown` is a "
        "free of memory whose allocation was not seen. `pointer_replaced` is an address "
        "allocated again without a free in between.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_unprobed_processes",
        kind=GAUGE,
        labels=("reason",),
        help="Processes on a GPU that are not traced, by reason.",
        samples=of.agent_table(lambda a: a.unprobed_processes),
        meaning="They opened an NVIDIA device or NVML lists them, but their library has no probe.",
        wrong_when="A process that only asks for versions may count for a moment.",
    ),
    Metric(
        name="agent_incomplete_processes",
        kind=GAUGE,
        labels=(),
        help="Traced processes that were not seen from their start.",
        samples=of.agent(lambda a: a.incomplete_processes),
        meaning="Their requested memory is absent; graphs and contexts are unknown until learned.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_unresolved_processes",
        kind=GAUGE,
        labels=("reason",),
        help="Traced processes whose owner is unknown, by reason.",
        samples=of.agent_table(lambda a: a.unresolved),
        meaning='Their series carry `scope="unknown"`.',
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_nvml_up",
        kind=GAUGE,
        labels=(),
        help="1 while NVML answers.",
        samples=of.agent(lambda a: float(not a.nvml_error)),
        meaning="Without it devices have no names and held memory is absent; /api/v1/snapshot "
        "tells why.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_pods_up",
        kind=GAUGE,
        labels=(),
        help="1 while pods can be learned, or are not asked for.",
        samples=of.agent(lambda a: float(not a.pods_error)),
        meaning="0 means that new pods show as containers until the API server answers again.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_entitlements_up",
        kind=GAUGE,
        labels=(),
        help="1 once the kubelet has told which container was given which device.",
        samples=lambda view: (((), float(view.snapshot.entitlements_known)),),
        meaning="While it is 0, absent entitlements and gaps say nothing. It stays 1 while the "
        "kubelet restarts: its last answer is kept, and no pod younger than it is judged.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_tick_seconds",
        kind=GAUGE,
        labels=(),
        help="Time that the last tick took.",
        samples=of.agent(lambda a: seconds(a.tick_ns)),
        meaning="Reading the maps and making the snapshot.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_late_ticks_total",
        kind=COUNTER,
        labels=(),
        help="Ticks that began late.",
        samples=of.agent(lambda a: a.tick_late),
        meaning="The agent has too little CPU.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_bpf_memory_bytes",
        kind=GAUGE,
        labels=(),
        help="Memory of the BPF maps.",
        samples=of.agent(lambda a: a.bpf_memory_bytes),
        meaning="Charged to the agent's own cgroup, beside its resident memory.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_history_bytes",
        kind=GAUGE,
        labels=(),
        help="Memory of the snapshots kept for diagnosis.",
        samples=of.agent(lambda a: a.history_bytes),
        certainty=ESTIMATE,
        meaning="Bounded by the setting `history.bytes`.",
        wrong_when="Python's own overhead is estimated.",
    ),
    Metric(
        name="agent_cpu_seconds_total",
        kind=COUNTER,
        labels=(),
        help="CPU time of the agent.",
        samples=of.agent(lambda a: seconds(a.cpu_ns)),
        meaning="Without the probes, which run on the time of the traced processes.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_resident_memory_bytes",
        kind=GAUGE,
        labels=(),
        help="Resident memory of the agent.",
        samples=of.agent(lambda a: a.rss_bytes),
        meaning="Without the BPF maps.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_folded_owners",
        kind=GAUGE,
        labels=(),
        help="Owners added up in the owner `other`, for lack of room.",
        samples=lambda view: (((), float(view.folded)),),
        meaning="Raise the setting `series.per_node` if Prometheus can bear it.",
        wrong_when=NEVER,
    ),
    Metric(
        name="agent_series_dropped",
        kind=GAUGE,
        labels=(),
        help="Series left out because one owner had too many on one device.",
        samples=lambda view: (((), float(view.budget.dropped)),),
        meaning="Raise the setting `series.per_owner`. The first to go are durations by cause.",
        wrong_when=NEVER,
    ),
)
