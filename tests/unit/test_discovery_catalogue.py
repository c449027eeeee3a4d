"""The catalogue of libraries: scenes, and a node that hypothesis plays."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gpugauge.discovery.backoff import ENTRIES_LIMIT, FIRST_NS, LONGEST_NS, Backoff
from gpugauge.discovery.catalogue import IDLE_NS, INSPECTIONS_LIMIT, Catalogue
from gpugauge.discovery.choice import CGROUP_LIMIT, LIBRARIES_LIMIT
from gpugauge.discovery.decision import Decision, HostLibrary, User
from gpugauge.model.library import FileId, Library, Site, SiteKind

SECOND_NS = 1_000_000_000
LATER_NS = 7200 * SECOND_NS


def file(inode: int, device: int = 8) -> FileId:
    return FileId(0, device, inode)


def user(pid: int, cgroup: int = 1, start_time: int = 0) -> User:
    return User(pid, start_time or pid, cgroup, "/usr/lib/libcuda.so.1", f"{pid}000-{pid}fff")


def library(file_id: FileId, content: int = 0, kind: SiteKind = SiteKind.PUSH) -> Library:
    return Library(
        file_id=file_id,
        path="/inspected",
        shown_path="/usr/lib/libcuda.so.1",
        vendor="cuda",
        version="",
        sites=(Site("cuInit", 4096, kind),),
        exported=1,
        unknown_symbols=(),
        tenant_supplied=True,
        canary=Site("cuVDPAUGetDevice", 8192, SiteKind.PUSH),
        build_id=str(content or file_id.inode),
    )


@dataclass
class Node:
    """Plays Linux: does what is decided, and holds breakpoints by real inode."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    real: dict[FileId, int] = field(default_factory=dict)
    """Files under two names have one real inode."""
    links: dict[FileId, str] = field(default_factory=dict)
    bad: set[FileId] = field(default_factory=set)
    now_ns: int = SECOND_NS

    def inode(self, file_id: FileId) -> int:
        return self.real.get(file_id, file_id.inode)

    def probed(self, file_id: FileId) -> bool:
        return self.inode(file_id) in {self.inode(link) for link in self.links}

    def carry_out(self, decision: Decision) -> None:
        for file_id in decision.release:
            del self.links[file_id]
            self.catalogue.released(file_id)
        for each in decision.inspect:
            if each.file_id in self.bad:
                self.catalogue.refused(each.file_id, "it is bad", self.now_ns)
            else:
                self.catalogue.inspected(
                    each.file_id,
                    library(each.file_id, self.inode(each.file_id)),
                    probed=self.probed(each.file_id),
                    now_ns=self.now_ns,
                )
        for each in decision.attach:
            assert not self.probed(each.file_id), "one file is attached twice"
            self.links[each.file_id] = each.path
            self.catalogue.attached(each.file_id)

    def settle(self) -> Decision:
        """Decide and carry out until there is nothing to do."""
        for _ in range(1000):
            decision = self.catalogue.decide(self.now_ns)
            if not (decision.inspect or decision.attach or decision.release):
                return decision
            self.carry_out(decision)
        raise AssertionError("the catalogue does not come to rest")


def test_a_mapped_library_is_inspected_attached_and_released_with_its_last_user() -> None:
    node = Node()
    node.catalogue.mapped(file(71), user(3))
    decision = node.catalogue.decide(node.now_ns)
    (inspect,) = decision.inspect
    assert (inspect.path, inspect.pid) == ("/proc/3/map_files/3000-3fff", 3)
    assert inspect.tenant_supplied
    assert decision.unprobed == {3: "its library is not attached yet"}
    node.carry_out(decision)
    assert node.settle().unprobed == {}
    assert node.links == {file(71): "/proc/3/map_files/3000-3fff"}
    assert [each.file_id for each in node.catalogue.libraries()] == [file(71)]
    node.catalogue.mapped(file(71), user(5))
    node.catalogue.exited(3)
    assert node.settle().unprobed == {}
    assert file(71) in node.links
    node.catalogue.exited(5)
    assert node.catalogue.decide(node.now_ns).release == (file(71),)


def test_a_decision_is_not_repeated_before_its_result_is_told() -> None:
    node = Node()
    node.catalogue.mapped(file(71), user(3))
    first = node.catalogue.decide(node.now_ns)
    assert len(first.inspect) == 1
    again = node.catalogue.decide(node.now_ns)
    assert (again.inspect, again.attach, again.release) == ((), (), ())


def test_the_host_path_is_preferred_and_marks_the_driver() -> None:
    node = Node()
    node.catalogue.set_hosts([HostLibrary(file(71), "/usr/lib/libcuda.so.580.1")])
    node.settle()
    assert node.links == {file(71): "/usr/lib/libcuda.so.580.1"}
    node.catalogue.mapped(file(71), user(3))
    node.catalogue.mapped(file(73), user(5))
    node.settle()
    marks = {each.file_id: each.tenant_supplied for each in node.catalogue.libraries()}
    assert marks == {file(71): False, file(73): True}


def test_the_host_driver_is_released_30_s_after_the_last_gpu_process() -> None:
    node = Node()
    node.catalogue.set_hosts([HostLibrary(file(71), "/run/nvidia/driver/usr/lib/libcuda.so.1")])
    node.catalogue.mapped(file(73), user(3))
    node.settle()
    node.now_ns += 3600 * SECOND_NS
    assert file(71) in node.links
    assert node.settle().release == ()
    node.catalogue.exited(3)
    node.now_ns += SECOND_NS
    node.settle()
    node.now_ns += IDLE_NS - 2 * SECOND_NS
    node.settle()
    assert file(71) in node.links
    node.now_ns += 2 * SECOND_NS
    node.settle()
    assert node.links == {}
    node.catalogue.mapped(file(71), user(5))
    assert node.settle().unprobed == {}
    assert file(71) in node.links


def test_a_host_driver_that_may_stay_does() -> None:
    node = Node()
    node.catalogue.set_hosts([HostLibrary(file(71), "/usr/lib/libcuda.so.1", keep=True)])
    node.settle()
    node.now_ns += 10 * IDLE_NS
    node.settle()
    assert file(71) in node.links


def test_a_process_that_only_holds_a_device_keeps_the_driver_and_is_reported() -> None:
    node = Node()
    node.catalogue.set_hosts([HostLibrary(file(71), "/lib/libcuda.so.1")])
    node.catalogue.observe({}, {7: "it holds /dev/nvidia-uvm"})
    node.settle()
    node.now_ns += 2 * IDLE_NS
    assert node.settle().unprobed == {7: "it holds /dev/nvidia-uvm"}
    assert file(71) in node.links
    node.catalogue.mapped(file(71), user(7))
    assert node.settle().unprobed == {}


def test_a_replaced_driver_is_released_when_its_processes_have_ended() -> None:
    node = Node()
    node.catalogue.set_hosts([HostLibrary(file(71), "/lib/libcuda.so.1")])
    node.catalogue.mapped(file(71), user(3))
    node.settle()
    node.catalogue.set_hosts([HostLibrary(file(73), "/lib/libcuda.so.1")])
    node.settle()
    assert set(node.links) == {file(71), file(73)}
    node.catalogue.mapped(file(73), user(5))
    node.catalogue.exited(3)
    node.settle()
    assert set(node.links) == {file(73)}


def test_a_driver_that_appears_later_is_attached() -> None:
    node = Node()
    node.catalogue.observe({}, {})
    node.settle()
    node.now_ns += 10 * IDLE_NS
    node.settle()
    node.catalogue.mapped(file(71), user(3))
    node.catalogue.set_hosts([HostLibrary(file(71), "/lib/libcuda.so.1")])
    assert node.settle().unprobed == {}
    assert node.links == {file(71): "/lib/libcuda.so.1"}


def test_two_names_of_one_file_are_attached_once() -> None:
    node = Node(real={file(71, 40): 7, file(71, 41): 7})
    node.catalogue.observe({file(71, 40): [user(3, 1)], file(71, 41): [user(5, 2)]})
    assert node.settle().unprobed == {}
    assert list(node.links) == [file(71, 40)]
    node.catalogue.exited(3)  # its container's mount must not be held by the other's process
    assert node.settle().unprobed == {}
    assert list(node.links) == [file(71, 41)]


def test_own_copies_of_one_library_are_attached_each() -> None:
    node = Node()
    node.catalogue.observe({file(71): [user(3)], file(73): [user(5)]})
    for _ in range(9):
        decision = node.catalogue.decide(node.now_ns)
        for each in decision.inspect:
            found = library(each.file_id, content=1)
            node.catalogue.inspected(each.file_id, found, probed=False, now_ns=node.now_ns)
        assert len(decision.attach) <= 1, "the second must ask the canary after the first"
        for each in decision.attach:
            node.links[each.file_id] = each.path
            node.catalogue.attached(each.file_id)
    assert set(node.links) == {file(71), file(73)}


def test_an_inspection_that_began_before_its_twin_was_attached_is_repeated() -> None:
    node = Node(real={file(71, 40): 7, file(71, 41): 7})
    node.catalogue.mapped(file(71, 40), user(3))
    node.catalogue.mapped(file(71, 41), user(5))
    first, second = node.catalogue.decide(node.now_ns).inspect
    node.catalogue.inspected(
        first.file_id, library(first.file_id, 7), probed=False, now_ns=node.now_ns
    )
    node.carry_out(node.catalogue.decide(node.now_ns))
    node.catalogue.inspected(
        second.file_id, library(second.file_id, 7), probed=False, now_ns=node.now_ns
    )
    node.settle()
    assert list(node.links) == [file(71, 40)]


def test_a_link_through_a_mount_is_moved_when_its_container_has_gone() -> None:
    node = Node()
    node.catalogue.observe({file(71): [user(3, cgroup=1), user(5, cgroup=2)]})
    node.settle()
    assert node.links[file(71)].startswith("/proc/3/")
    node.catalogue.exited(3)
    node.settle()
    assert node.links[file(71)].startswith("/proc/5/")


def test_at_most_64_libraries_and_the_most_used_first() -> None:
    node = Node()
    count = LIBRARIES_LIMIT + 3
    users = {
        file(100 + number): [user(1000 + 10 * number + each, cgroup=number) for each in range(2)]
        for number in range(count)
    }
    users[file(100 + count - 1)] += [user(9001, cgroup=count), user(9002, cgroup=count)]
    node.catalogue.observe(users)
    unprobed = node.settle().unprobed
    assert len(node.links) == LIBRARIES_LIMIT
    assert file(100 + count - 1) in node.links
    assert len(unprobed) == 6
    assert set(unprobed.values()) == {"more than 64 driver libraries are in use"}


def test_at_most_4_libraries_of_one_container_and_its_neighbour_keeps_its_own() -> None:
    node = Node()
    users = {file(100 + number): [user(1000 + number, cgroup=1)] for number in range(1009)}
    users[file(7)] = [user(7, cgroup=2)]
    node.catalogue.observe(users)
    unprobed = node.settle().unprobed
    assert len(node.links) == CGROUP_LIMIT + 1
    assert file(7) in node.links
    assert len(unprobed) == 1005
    assert set(unprobed.values()) == {"its container maps more than 4 driver libraries"}


def test_the_catalogue_itself_is_bounded() -> None:
    node = Node()
    node.catalogue.observe({file(1 + number): [user(1 + number)] for number in range(1031)})
    unprobed = node.settle().unprobed
    assert len(unprobed) == 1027
    assert "more than 1024 driver libraries are mapped" in unprobed.values()


def test_few_inspections_at_a_time() -> None:
    catalogue = Catalogue()
    catalogue.observe({file(1 + number): [user(1 + number, number)] for number in range(7)})
    assert len(catalogue.decide(SECOND_NS).inspect) == INSPECTIONS_LIMIT


def test_a_refused_file_is_tried_again_later_and_later() -> None:
    node = Node(bad={file(71)})
    node.catalogue.mapped(file(71), user(3))
    assert node.settle().unprobed == {3: "it is bad"}
    node.now_ns += FIRST_NS - 1
    assert node.catalogue.decide(node.now_ns).inspect == ()
    node.now_ns += 1
    assert len(node.catalogue.decide(node.now_ns).inspect) == 1
    node.catalogue.refused(file(71), "it is bad", node.now_ns)
    node.now_ns += 2 * FIRST_NS - 1
    assert node.catalogue.decide(node.now_ns).inspect == ()
    node.bad.clear()
    node.now_ns += 1
    assert node.settle().unprobed == {}


def test_processes_that_come_and_go_do_not_shorten_the_wait() -> None:
    node = Node(bad={file(71)})
    for pid in (3, 5, 7):
        node.catalogue.mapped(file(71), user(pid))
        node.settle()
        node.catalogue.exited(pid)
        node.settle()
    node.catalogue.mapped(file(71), user(11))
    assert node.catalogue.decide(node.now_ns).inspect == ()


def test_a_library_without_a_legal_site_is_refused() -> None:
    catalogue = Catalogue()
    catalogue.mapped(file(71), user(3))
    catalogue.decide(SECOND_NS)
    catalogue.inspected(
        file(71), library(file(71), kind=SiteKind.NONE), probed=False, now_ns=SECOND_NS
    )
    decision = catalogue.decide(SECOND_NS)
    assert decision.attach == ()
    assert "no" in decision.unprobed[3]
    assert "legal place" in decision.unprobed[3]


def test_a_file_that_changed_under_its_name_is_refused() -> None:
    catalogue = Catalogue()
    catalogue.mapped(file(71), user(3))
    catalogue.decide(SECOND_NS)
    catalogue.inspected(file(71), library(file(73)), probed=False, now_ns=SECOND_NS)
    decision = catalogue.decide(SECOND_NS)
    assert decision.attach == ()
    assert decision.unprobed == {3: "another file has come in its place"}


def test_a_failed_attach_is_told_to_its_processes() -> None:
    node = Node()
    node.catalogue.mapped(file(71), user(3))
    node.carry_out(node.catalogue.decide(node.now_ns))
    (attach,) = node.catalogue.decide(node.now_ns).attach
    node.catalogue.refused(attach.file_id, "Linux refused the link", node.now_ns)
    decision = node.catalogue.decide(node.now_ns)
    assert decision.unprobed == {3: "Linux refused the link"}
    assert decision.inspect == ()


def test_the_backoff_doubles_up_to_an_hour_and_is_bounded() -> None:
    backoff = Backoff()
    waits = []
    for _ in range(12):
        backoff.failed(file(7), 0)
        low, high = 0, 2 * LONGEST_NS
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if backoff.allows(file(7), middle) else (middle + 1, high)
        waits.append(low // SECOND_NS)
    assert waits[:4] == [10, 20, 40, 80]
    assert waits[-1] == 3600
    for inode in range(100, 100 + ENTRIES_LIMIT):
        backoff.failed(file(inode), 0)
    assert backoff.allows(file(7), 0)  # forgotten first
    assert not backoff.allows(file(100), 0)
    backoff.succeeded(file(100))
    assert backoff.allows(file(100), 0)


PIDS = st.integers(1, 12)
FILES = st.sampled_from([file(inode, device) for inode in (71, 73, 79) for device in (8, 40, 41)])


class NodeMachine(RuleBasedStateMachine):
    """Processes come and go, results come in any order, and nothing is counted twice."""

    def __init__(self) -> None:
        super().__init__()
        # Names on devices 40 and 41 are two overlays over one file; device 8 is an own copy.
        self.node = Node(
            real={file(i, device): 1000 + i for i in (71, 73, 79) for device in (40, 41)}
        )
        self.users: dict[FileId, dict[int, User]] = {}
        self.pending_inspect: list[tuple[FileId, int, bool]] = []
        self.pending_attach: list[Library] = []
        self.pending_release: list[FileId] = []
        self.hosts: list[HostLibrary] = []

    @rule(pid=PIDS, file_id=FILES)
    def process_maps(self, pid: int, file_id: FileId) -> None:
        each = user(pid, cgroup=pid % 3)
        self.users.setdefault(file_id, {})[pid] = each
        self.node.catalogue.mapped(file_id, each)

    @rule(pid=PIDS)
    def process_ends(self, pid: int) -> None:
        for those in self.users.values():
            those.pop(pid, None)
        self.node.catalogue.exited(pid)

    @rule()
    def full_scan(self) -> None:
        users = {file_id: list(those.values()) for file_id, those in self.users.items() if those}
        self.node.catalogue.observe(users)

    @rule(files=st.lists(FILES, max_size=2, unique=True))
    def host_driver_changes(self, files: list[FileId]) -> None:
        self.hosts = [
            HostLibrary(each, f"/host/{each.inode}/{each.device_minor}") for each in files
        ]
        self.node.catalogue.set_hosts(self.hosts)

    @rule(file_id=FILES, bad=st.booleans())
    def file_turns(self, file_id: FileId, bad: bool) -> None:
        (self.node.bad.add if bad else self.node.bad.discard)(file_id)

    @rule(seconds=st.sampled_from((1, 11, 31, 601)))
    def time_passes(self, seconds: int) -> None:
        self.node.now_ns += seconds * SECOND_NS

    @rule()
    def decide(self) -> None:
        decision = self.node.catalogue.decide(self.node.now_ns)
        for each in decision.inspect:
            # The canary is asked at once, its answer may come much later.
            self.pending_inspect.append(
                (each.file_id, self.node.inode(each.file_id), self.node.probed(each.file_id))
            )
        self.pending_attach += decision.attach
        self.pending_release += decision.release
        assert len(set(self.pending_release)) == len(self.pending_release)

    @rule(data=st.data())
    def inspection_ends(self, data: st.DataObject) -> None:
        if self.pending_inspect:
            at = data.draw(st.integers(0, len(self.pending_inspect) - 1))
            self.end_inspection(at)

    def end_inspection(self, at: int) -> None:
        file_id, inode, probed = self.pending_inspect.pop(at)
        catalogue = self.node.catalogue
        if file_id in self.node.bad:
            catalogue.refused(file_id, "it is bad", self.node.now_ns)
        else:
            # The content is equal for copies too: the canary alone tells them apart.
            content = 1 + inode % 1000
            catalogue.inspected(
                file_id, library(file_id, content), probed=probed, now_ns=self.node.now_ns
            )

    @rule(data=st.data(), fails=st.booleans())
    def attach_ends(self, data: st.DataObject, fails: bool) -> None:
        if self.pending_attach:
            self.end_attach(data.draw(st.integers(0, len(self.pending_attach) - 1)), fails)

    def end_attach(self, at: int, fails: bool = False) -> None:
        each = self.pending_attach.pop(at)
        if fails:
            self.node.catalogue.refused(each.file_id, "Linux refused the link", self.node.now_ns)
            return
        assert not self.node.probed(each.file_id), "one file is attached twice"
        self.node.links[each.file_id] = each.path
        self.node.catalogue.attached(each.file_id)

    @rule()
    def release_ends(self) -> None:
        for file_id in self.pending_release:
            del self.node.links[file_id]
            self.node.catalogue.released(file_id)
        self.pending_release = []

    @rule()
    def all_comes_to_rest(self) -> None:
        while self.pending_inspect:
            self.end_inspection(0)
        while self.pending_attach:
            self.end_attach(0)
        self.release_ends()
        self.node.now_ns += LATER_NS  # so that no back-off is left
        for _ in range(100):
            self.decide()
            if not (self.pending_inspect or self.pending_attach or self.pending_release):
                break
            self.release_ends()
            while self.pending_inspect:
                self.end_inspection(0)
            while self.pending_attach:
                self.end_attach(0)
        else:
            raise AssertionError("the catalogue does not come to rest")
        self.at_rest()

    def at_rest(self) -> None:
        unprobed = self.node.catalogue.decide(self.node.now_ns).unprobed
        hosts = {host.file_id for host in self.hosts}
        for file_id in self.node.links:
            assert self.users.get(file_id) or file_id in hosts, "a link without users is left"
        for file_id, those in self.users.items():
            for pid in those:
                if file_id in self.node.bad and not self.node.probed(file_id):
                    assert pid in unprobed
        everything_good = not self.node.bad
        if everything_good and not unprobed:
            for file_id, those in self.users.items():
                assert not those or self.node.probed(file_id)
        for pid in unprobed:
            files = [file_id for file_id, those in self.users.items() if pid in those]
            assert files, "an ended process is reported"
            refused = any(each in self.node.bad for each in files)
            crowded = max(sum(pid_ % 3 == c for t in self.users.values() for pid_ in t)
                          for c in range(3)) > CGROUP_LIMIT  # fmt: skip
            assert refused or crowded, unprobed[pid]

    @invariant()
    def no_inode_has_two_links(self) -> None:
        inodes = [self.node.inode(file_id) for file_id in self.node.links]
        assert len(inodes) == len(set(inodes))


NodeMachine.TestCase.settings = settings(stateful_step_count=50, deadline=None)
TestNode = NodeMachine.TestCase


@pytest.mark.parametrize("pid", [3, 5])
def test_an_ended_process_is_not_reported(pid: int) -> None:
    node = Node(bad={file(71)})
    node.catalogue.observe({file(71): [user(3)]}, {5: "it holds /dev/nvidia-uvm"})
    assert set(node.settle().unprobed) == {3, 5}
    node.catalogue.exited(pid)
    assert pid not in node.settle().unprobed
