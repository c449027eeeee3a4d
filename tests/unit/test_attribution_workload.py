"""Which workload a pod belongs to: labels first, controller owner second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.workload import workload_of

JOBSET = {"jobset.sigs.k8s.io/jobset-name": "llm", "batch.kubernetes.io/job-name": "llm-node-0"}


@pytest.mark.parametrize(
    ("labels", "owner", "expected"),
    [
        (
            {"pod-template-hash": "6d4cf56db6"},
            ("ReplicaSet", "web-6d4cf56db6"),
            ("web", "Deployment"),
        ),
        ({"pod-template-hash": "other"}, ("ReplicaSet", "web-6d4"), ("web-6d4", "ReplicaSet")),
        ({}, ("ReplicaSet", "bare"), ("bare", "ReplicaSet")),
        ({}, ("StatefulSet", "db"), ("db", "StatefulSet")),
        ({}, ("DaemonSet", "agent"), ("agent", "DaemonSet")),
        ({"batch.kubernetes.io/job-name": "train"}, ("Job", "train"), ("train", "Job")),
        ({"job-name": "train"}, ("", ""), ("train", "Job")),
        ({}, ("Job", "nightly-29912345"), ("nightly", "CronJob")),
        ({"job-name": "nightly-29912345"}, ("Job", "nightly-29912345"), ("nightly", "CronJob")),
        ({}, ("Job", "nightly-1600000000"), ("nightly", "CronJob")),
        ({}, ("Job", "train-20261129"), ("train-20261129", "Job")),
        (
            {"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/replica-index": "0"},
            ("PyTorchJob", "bert"),
            ("bert", "PyTorchJob"),
        ),
        (
            {
                "training.kubeflow.org/job-name": "bert",
                "training.kubeflow.org/operator-name": "mpijob-controller",
            },
            ("", ""),
            ("bert", "MPIJob"),
        ),
        ({"training.kubeflow.org/job-name": "bert"}, ("", ""), ("bert", "TrainingJob")),
        ({"pytorch-job-name": "old"}, ("PyTorchJob", "old"), ("old", "PyTorchJob")),
        (JOBSET, ("Job", "llm-node-0"), ("llm", "JobSet")),
        (
            {**JOBSET, "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"},
            ("Job", "llm-node-0"),
            ("llm", "TrainJob"),
        ),
        (
            {"ray.io/cluster": "ray", "ray.io/group": "gpu"},
            ("RayCluster", "ray"),
            ("ray", "RayCluster"),
        ),
        (
            {"leaderworkerset.sigs.k8s.io/name": "vllm"},
            ("StatefulSet", "vllm-0"),
            ("vllm", "LeaderWorkerSet"),
        ),
        ({}, ("Node", "node-a"), ("self", "Pod")),
        ({}, ("", ""), ("self", "Pod")),
        ({}, ("Rollout", "canary"), ("canary", "Rollout")),
    ],
)
def test_workload(labels, owner, expected):
    assert workload_of("self", labels, *owner) == expected


@given(
    st.dictionaries(
        st.sampled_from(["ray.io/cluster", "job-name", "pod-template-hash", "other"]),
        st.text(max_size=300),
    ),
    st.text(max_size=30),
    st.text(max_size=300),
)
def test_any_labels_give_a_short_printable_name(labels, kind, name):
    workload, workload_kind = workload_of("self", labels, kind, name)
    for text in (workload, workload_kind):
        assert len(text) <= 128
        assert text.isprintable()
