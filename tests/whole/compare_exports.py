"""What becomes of modules of all kinds by every way that this PyTorch has to export them: a table.

    ROOKERY_BIN_DIR=build/bin python3 tests/whole/compare_exports.py [MODULE...]

right      20 steps as in PyTorch, to rounding, and a state dict that loads strictly
told       otherwise, for train.json had to say that all is trained, or clusterize has warned of what the file lacks
refused    by clusterize, before it wrote anything
no export  by PyTorch itself
WRONG      otherwise, without a word; or clusterize took what a provider refused

By models/rookery_export.py all must be right. Exit code 1 where that is not so, or where something is wrong.
"""

import contextlib
import inspect
import io
import sys
import unittest
import warnings

import torch
from exported import STEPS, TIMES, ExportedTest, Reference, rookery_export
from torch_modules import CASES

IS_NEW = "dynamo" in inspect.signature(torch.onnx.export).parameters


def named(inputs):
    return {"input_names": list(inputs), "output_names": ["output"]}


def by_rookery(module, inputs, path):
    rookery_export.export(module, inputs, path)


def by_default(module, inputs, path):
    """As the manual of this PyTorch shows it."""
    torch.onnx.export(module, tuple(inputs.values()), path, **named(inputs))


def not_optimized(module, inputs, path):
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        module, tuple(inputs.values()), path, dynamo=True, optimize=False, **named(inputs),
        dynamic_shapes=tuple({0: batch} for _ in inputs),
    )


def by_tracing(module, inputs, path, **options):
    torch.onnx.utils.export(
        module, tuple(inputs.values()), path, **named(inputs), **options,
        dynamic_axes={name: {0: "batch"} for name in inputs},
    )


def as_the_page_says(module, inputs, path):
    training = torch.onnx.TrainingMode.TRAINING
    by_tracing(module, inputs, path, training=training, do_constant_folding=False, opset_version=17)


WAYS = {"rookery_export": by_rookery, "torch.onnx.export": by_default}
if IS_NEW:
    WAYS["optimize=False"] = not_optimized
WAYS |= {"older exporter": by_tracing, "docs/bring-your-model.md": as_the_page_says}


class Comparison(ExportedTest):
    def runTest(self):
        pass

    def outcome(self, case, way):
        """(what became of it, why)"""
        module, inputs, targets = case.module(), case.inputs(), case.targets()
        self.write_data(inputs, targets)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                WAYS[way](module, inputs, str(self.node_data / "net.onnx"))
        except Exception as error:  # noqa: BLE001 - whatever the exporters raise
            return "no export", str(error).strip().splitlines()[0]
        is_ours = way == "rookery_export"
        nodes, settings = (3, {}) if is_ours else (1, {"trained": ["*"]})
        self.write_job(nodes, **settings)
        planned = self.start("clusterize", "--min-nodes-per-cluster", nodes)
        if planned.wait() != 0:
            return "refused", planned.errors().strip()
        launched = self.start("launch")
        if launched.wait() != 0:
            return "WRONG", "clusterize took it, a provider did not: " + launched.errors().strip()
        self.fuse()
        told = planned.errors().strip()
        otherwise = self.difference(case, inputs, targets)
        if not otherwise:
            return "right", told
        is_told = told or any(not each.requires_grad for each in module.parameters())
        return "told" if is_told and not is_ours else "WRONG", f"{otherwise}; {told}"

    def difference(self, case, inputs, targets):
        """What is otherwise than in PyTorch; empty where nothing is."""
        reference = Reference(case.module, inputs, targets)
        losses = self.losses_by_step()
        if len(losses) != STEPS or reference.difference(losses) > TIMES:
            return f"losses {losses}, in PyTorch {reference.losses}"
        try:
            case.module().load_state_dict(self.trained_state(), strict=True)
        except RuntimeError as error:
            return " ".join(str(error).split())
        return ""


def compared(case, way):
    comparison = Comparison()
    comparison.setUp()
    try:
        return comparison.outcome(case, way)
    finally:
        comparison.doCleanups()


def main():
    names = sys.argv[1:]
    cases = [case for case in CASES if not names or case.name in names]
    print(f"PyTorch {torch.__version__}\n\n| module | {' | '.join(WAYS)} |\n|---|{'---|' * len(WAYS)}", flush=True)
    is_good, notes, counts = True, [], {}
    for case in cases:
        row = []
        for way in WAYS:
            outcome, why = compared(case, way)
            row.append(outcome)
            counts[way, outcome] = counts.get((way, outcome), 0) + 1
            is_good &= outcome == "right" if way == "rookery_export" else outcome != "WRONG"
            if outcome != "right":
                notes.append(f"{case.name}, {way}: {outcome}: {why}")
        print(f"| {case.name} | {' | '.join(row)} |", flush=True)
    print("\n" + "\n".join(f"{way}: {count} {outcome}" for (way, outcome), count in counts.items()))
    print("\n" + "\n\n".join(notes))
    return 0 if is_good else 1


if __name__ == "__main__":
    unittest.util._MAX_LENGTH = 10000
    sys.exit(main())
