"""Stacks: the line where a real Python process waits is found, and foreign JSON is survived."""

import contextlib
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.diagnosis.python_stack import StackSampler, parse_dump
from gpugauge.errors import UnavailableError

PROGRAM = textwrap.dedent(
    """\
    import sys, threading, time

    def log_tensor():
        time.sleep(0.05)  # a wait with the lock let go, as in the driver

    def step():
        end = time.perf_counter() + 0.004
        while time.perf_counter() < end:
            pass
        log_tensor()

    threading.Thread(target=threading.Event().wait, daemon=True).start()
    threading.Thread(target=lambda: sys.stdin.read(), daemon=True).start()
    print("ready", flush=True)
    while True:
        step()
    """
)


def test_the_line_where_a_real_process_waits_has_the_largest_share(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            lines = StackSampler().lines(process.pid, samples=15)
        finally:
            process.kill()
    assert (lines[0].file, lines[0].line, lines[0].function) == ("train.py", 4, "log_tensor")
    assert lines[0].share_ratio > 0.5
    assert all(line.function not in ("wait", "<lambda>") for line in lines)


def test_a_process_that_is_not_python_is_said_to_have_no_stacks() -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        try:
            with pytest.raises(UnavailableError, match="cannot be read"):
                StackSampler().lines(process.pid, samples=3)
        finally:
            process.kill()


def test_one_process_is_not_sampled_again_at_once() -> None:
    clock = [0.0]
    sampler = StackSampler(dump=lambda _: b"[]", now_seconds=lambda: clock[0], sleep=lambda _: None)
    assert sampler.lines(7) == ()
    with pytest.raises(UnavailableError, match="ago"):
        sampler.lines(7)
    clock[0] = 31.0
    assert sampler.lines(7) == ()


def test_sampling_ends_at_its_deadline() -> None:
    clock, asked = [0.0], []

    def slow(pid: int) -> bytes:
        asked.append(pid)
        clock[0] += 3.0
        return b"[]"

    StackSampler(dump=slow, now_seconds=lambda: clock[0], sleep=lambda _: None).lines(7, 1000)
    assert len(asked) == 3


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_parsed(data: bytes) -> None:
    with contextlib.suppress(UnavailableError):
        parse_dump(data)


FRAME = st.fixed_dictionaries(
    {}, optional={"filename": st.text() | st.none(), "line": st.integers() | st.text(),
                  "name": st.text() | st.integers()},
)  # fmt: skip


@given(st.lists(st.fixed_dictionaries({}, optional={"frames": st.lists(FRAME) | st.none(),
                                                    "owns_gil": st.booleans()})))  # fmt: skip
def test_any_json_of_the_shape_gives_clean_names(threads: list[object]) -> None:
    for sample in parse_dump(json.dumps(threads).encode()):
        assert sample.file.isprintable()
        assert sample.function.isprintable()
        assert 0 <= sample.line <= 10_000_000


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        # A thread in the driver runs, or waits in a call of its own; the others in these.
        ({1: "running", 2: "202 0x0", 4: "281 0x5"}, {11}),
        ({1: "16 0x7", 2: "202 0x0", 4: "0 0x5"}, {11}),
        # Nothing but locks: they are all that is known.
        ({1: "202 0x0", 2: "202 0x0", 3: "281 0x5"}, {11, 12}),
    ],
)
def test_threads_that_wait_for_each_other_are_not_those_that_wait_for_the_gpu(
    tmp_path: Path, calls: dict[int, str], lines: set[int]
) -> None:
    for tid, call in calls.items():
        folder = tmp_path / "7" / "task" / str(tid)
        folder.mkdir(parents=True)
        (folder / "syscall").write_text(call)
    threads = [{"os_thread_id": tid, "owns_gil": False,
                "frames": [{"filename": "/app/train.py", "line": 10 + tid, "name": "step"}]}
               for tid in calls]  # fmt: skip
    dump = json.dumps(threads).encode()
    sampler = StackSampler(dump=lambda _: dump, proc=str(tmp_path), sleep=lambda _: None)
    found = {line.line for line in sampler.lines(7, samples=3)}
    assert found == lines
