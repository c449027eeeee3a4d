"""From evidence to the report: every check, in request order, and the line at the end."""

from __future__ import annotations

from gpugauge.explain.account import contexts, device_memory, process_memory
from gpugauge.explain.checks import CHECKS
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import asks
from gpugauge.explain.report import ORDER, REPORT_VERSION, Answer, Layer, Report, Step, Verdict

NODE_LAYERS = (
    Layer.SCHEDULING,
    Layer.PLUGIN,
    Layer.ALLOCATION,
    Layer.RUNTIME,
    Layer.DRIVER,
    Layer.PROCESS,
)
"""Layers in which a node without a pod has something to check."""


def walk(evidence: Evidence) -> Report:
    """Return what happened to the request, or how the node's own layers stand."""
    layers = tuple(Layer) if evidence.pod_wanted else NODE_LAYERS
    steps = tuple(step for step in (_step(evidence, layer) for layer in layers) if step.answers)
    broken = next((one for one in steps if one.verdict is Verdict.BROKEN), None)
    return Report(
        version=REPORT_VERSION,
        subject=evidence.pod_wanted or f"node {evidence.node_name}",
        node=evidence.node_name,
        simulated=evidence.simulated,
        steps=steps,
        conclusion=_conclusion(evidence, steps, broken),
        broken=broken.layer.value if broken else "",
        memory=process_memory(evidence),
        devices=device_memory(evidence),
        contexts=contexts(evidence),
    )


def _step(evidence: Evidence, layer: Layer) -> Step:
    checks = [
        one
        for one in CHECKS
        if one.layer is layer and (one.of_pod if evidence.pod_wanted else one.of_node)
    ]
    answers: list[Answer] = []
    for one in checks:
        answers += one.answers(evidence)
    if evidence.pod_wanted and not answers:
        nothing = "nothing that could be checked was seen"
        answers = [Answer(check="", verdict=Verdict.NOT_SEEN, seen=nothing)]
    worst = max((a.verdict for a in answers), key=ORDER.index, default=Verdict.NOT_SEEN)
    return Step(layer=layer, verdict=worst, answers=tuple(answers))


def first(step: Step, verdict: Verdict) -> Answer:
    """Return a step's first answer of a verdict."""
    return next(one for one in step.answers if one.verdict is verdict)


def _conclusion(evidence: Evidence, steps: tuple[Step, ...], broken: Step | None) -> str:
    if broken is not None:
        answer = first(broken, Verdict.BROKEN)
        guess = "probably at " if answer.guess else "at "
        what = "The request stops " if evidence.pod_wanted else "The node fails "
        return f"{what}{guess}{broken.layer}: {answer.seen.rstrip('.')}."
    if evidence.pod is not None and not asks(evidence.pod):
        warned = [one for one in steps if one.verdict is Verdict.WARNING]
        more = f" But: {first(warned[0], Verdict.WARNING).seen}." if warned else ""
        return f"{evidence.pod_wanted} asks for no GPU: there is no request to follow.{more}"
    warnings = sum(a.verdict is Verdict.WARNING for s in steps for a in s.answers)
    tail = f" {warnings} warning{'s' if warnings > 1 else ''}." if warnings else ""
    unseen = next((one for one in steps if one.verdict is Verdict.NOT_SEEN), None)
    last = steps[-1] if steps else None
    if evidence.pod_wanted and last is not None and last.verdict is Verdict.OK:
        part = f" {unseen.layer} was not seen in full." if unseen else ""
        return f"The request is served: {last.answers[0].seen}.{part}{tail}"
    if unseen is not None:
        why = first(unseen, Verdict.NOT_SEEN).seen
        return f"Nothing broken was found; {unseen.layer} is not seen, because {why}.{tail}"
    return f"Every check of the node passed.{tail}" if not tail else f"Nothing is broken.{tail}"
