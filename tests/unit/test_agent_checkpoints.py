"""Which libraries a checkpoint concerns."""

from __future__ import annotations

import os

from gpugauge.agent.checkpoints import concerned, namespace_pids
from gpugauge.agent.events import Checkpoint
from gpugauge.model.library import FileId

ONE, TWO, THREE = (FileId(8, 1, inode) for inode in (71, 73, 79))


def test_the_library_of_the_process_it_names_and_its_own() -> None:
    found = concerned(Checkpoint(5, os.getpid(), 0), {os.getpid(): ONE, 1 << 23: TWO}, THREE)
    assert found == {ONE, THREE}


def test_all_where_nobody_has_that_number() -> None:
    assert concerned(Checkpoint(5, 1 << 24, 0), {os.getpid(): ONE, 1 << 23: TWO}, None) == {
        ONE,
        TWO,
    }


def test_numbers_of_a_process_in_its_namespaces() -> None:
    assert os.getpid() in namespace_pids(os.getpid())
    assert namespace_pids(1 << 23) == ()
