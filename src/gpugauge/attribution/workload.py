"""Which workload a pod belongs to, from what the pod itself says.

Labels come first: they need no rights beyond reading pods, and name the thing
that a user made (a PyTorchJob, not the Job below it). The controller owner is
second. Nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpugauge.attribution.names import clean

# Label, kind. The outermost maker first: a JobSet makes Jobs; a Ray cluster or a
# LeaderWorkerSet may run pods of any controller.
_LABELS = (
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
)
# A TrainJob makes a JobSet of its own name, and marks what it makes with labels of its own.
_TRAINER_PREFIX = "trainer.kubeflow.org/"
_TRAINING_NAME = "training.kubeflow.org/job-name"
_OLD_PYTORCH_NAME = "pytorch-job-name"
# `training.kubeflow.org/operator-name` holds `pytorchjob-controller` and the like.
_TRAINING_OPERATOR = "training.kubeflow.org/operator-name"
_TRAINING_KINDS = {
    "pytorchjob": "PyTorchJob",
    "tfjob": "TFJob",
    "mpijob": "MPIJob",
    "xgboostjob": "XGBoostJob",
    "paddlejob": "PaddleJob",
    "jaxjob": "JAXJob",
}
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
_TEMPLATE_HASH = "pod-template-hash"
# A CronJob names its Jobs by the scheduled minute since 1970 (before Kubernetes 1.21 by the
# second). A Job named by a date ends in 8 digits too, but 20991231 is a minute of 2009.
_CRON_SUFFIX = re.compile(r"(.+)-([0-9]{8}|[0-9]{10})")
_CRON_FIRST_MINUTE = 26_000_000  # June 2019


def workload_of(
    pod: str, labels: Mapping[str, str], owner_kind: str, owner_name: str
) -> tuple[str, str]:
    """Return (name, kind) of the workload of a pod.

    Args:
        pod: The pod's name: its own workload when nothing made it.
        labels: Its labels.
        owner_kind: Kind of the owner reference with `controller: true`, or "".
        owner_name: Its name, or "".
    """
    for label, kind in _LABELS:
        if labels.get(label):
            made = kind == "JobSet" and any(name.startswith(_TRAINER_PREFIX) for name in labels)
            return clean(labels[label]), "TrainJob" if made else kind
    training = labels.get(_TRAINING_NAME)
    if training:
        operator = labels.get(_TRAINING_OPERATOR, "").partition("-")[0]
        by_operator = _TRAINING_KINDS.get(operator, "")
        by_owner = _TRAINING_KINDS.get(owner_kind.lower(), "")
        return clean(training), by_owner or by_operator or "TrainingJob"
    if labels.get(_OLD_PYTORCH_NAME):
        return clean(labels[_OLD_PYTORCH_NAME]), "PyTorchJob"
    job = next((labels[name] for name in _JOB_NAMES if labels.get(name)), "")
    if job or owner_kind == "Job":
        return _job(job or owner_name)
    if owner_kind == "ReplicaSet":
        return _replica_set(owner_name, labels.get(_TEMPLATE_HASH, ""))
    if owner_kind == "Node" or not owner_name:
        return clean(pod), "Pod"  # a static pod is owned by its Node
    return clean(owner_name), clean(owner_kind)


def _replica_set(name: str, template_hash: str) -> tuple[str, str]:
    if template_hash and name.endswith(f"-{template_hash}"):
        return clean(name.removesuffix(f"-{template_hash}")), "Deployment"
    return clean(name), "ReplicaSet"


def _job(name: str) -> tuple[str, str]:
    cron = _CRON_SUFFIX.fullmatch(name)
    if cron and int(cron.group(2)) >= _CRON_FIRST_MINUTE:
        return clean(cron.group(1)), "CronJob"
    return clean(name), "Job"
