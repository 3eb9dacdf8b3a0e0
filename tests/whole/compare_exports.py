"""What becomes of modules of all kinds by every way that this PyTorch has to export them: a table.

    ROOKERY_BIN_DIR=build/bin python3 tests/whole/compare_exports.py [MODULE...]

right      20 steps as in PyTorch, to rounding, and a state dict that loads strictly and is that of PyTorch
told       otherwise, and clusterize has warned of just that
refused    by clusterize, before it wrote anything, with another way to export
no export  by PyTorch itself
WRONG      otherwise, without a word; or clusterize took what a provider refused

For files of other exporters train.json says what clusterize asks for: which parameters are frozen, and those of the
tensors that clusterize takes for buffers that are, and which names are tied. By models/rookery_export.py all must be
right. Exit code 1 where that is not so, or where something is wrong.
"""

import contextlib
import functools
import io
import re
import sys
import unittest
import warnings

import onnx
import torch
from exported import STEPS, TIMES, VERSION, ExportedTest, Reference, rookery_export
from torch_modules import CASES, traps

IS_NEW = VERSION >= (2, 5)


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
    training = torch.onnx.TrainingMode.PRESERVE
    by_tracing(module, inputs, path, training=training, do_constant_folding=False, opset_version=17)


WAYS = {"rookery_export": by_rookery, "torch.onnx.export": by_default}
if IS_NEW:
    WAYS["optimize=False"] = not_optimized
WAYS |= {"older exporter": by_tracing, "docs/bring-your-model.md": as_the_page_says}


# What a file of another exporter has no place for, by what clusterize says of it then; and where names are lost.
LOST = {
    traps.Detached: "detaches", traps.Guarded: "torch.no_grad()", traps.Padded: "padding_idx",
    traps.Tested: "BatchNorm was exported in eval()", traps.Evaluated: "BatchNorm was exported in eval()",
    traps.Stepping: "what it changes", traps.Frequent: "scale_grad_by_freq",
    traps.Reparametrized: "taken for weights of linear layers that the exporter has turned",
}
OTHER_NAMES = "the state dict"
MOVED = ("running_mean", "running_var", "num_batches_tracked")  # by the export itself, where that is not ours
REMEDIES = ("export with ", "models/rookery_export.py")


@functools.lru_cache(maxsize=1)  # of one module by all ways
def reference_of(case):
    return Reference(case.module, case.inputs(), case.targets())


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
        planned = self.planned(3, {}) if is_ours else self.planned_as_told(case.module())
        if planned.wait() != 0:
            has_remedy = any(remedy in planned.errors() for remedy in REMEDIES)
            return "refused" if has_remedy else "WRONG", planned.errors().strip()
        launched = self.start("launch")
        if launched.wait() != 0:
            return "WRONG", "clusterize took it, a provider did not: " + launched.errors().strip()
        self.fuse()
        told = planned.errors().strip()
        otherwise, warning = self.difference(case, is_ours)
        if not otherwise:
            return "right", told
        is_told = not is_ours and warning is not None and warning in told
        return "told" if is_told else "WRONG", f"{otherwise}; {told}"

    def planned(self, nodes, settings):
        self.write_job(nodes, **settings)
        planned = self.start("clusterize", "--min-nodes-per-cluster", nodes)
        planned.wait()
        return planned

    def tied(self, module):
        """Of names that are one tensor, those that the file lacks or nothing in it uses, each with that which it has."""
        graph = onnx.load(str(self.node_data / "net.onnx")).graph
        there = {each.name for each in graph.initializer} & {name for node in graph.node for name in node.input}
        state = module.state_dict(keep_vars=True)
        named = {id(state[name]): name for name in there & set(state)}
        return {name: named[id(each)] for name, each in state.items() if named.get(id(each), name) != name}

    def planned_as_told(self, module):
        """With a train.json that says of the module what clusterize asks for."""
        frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
        tied = self.tied(module)
        settings = {"frozen": frozen} if frozen else {"trained": ["*"]}
        planned = self.planned(1, settings | {"tied": tied})
        told = re.search(r'perhaps buffers of the module \(then name them in "frozen"\): (.*)', planned.errors())
        ends = tuple(f".{name}" for name, _ in module.named_buffers())  # some exporters write "model." before them
        buffers = [name for name in told.group(1).split(", ") if f".{name}".endswith(ends)] if told else []
        return self.planned(1, {"frozen": frozen + buffers, "tied": tied}) if buffers else planned

    def difference(self, case, is_ours):
        """(what is otherwise than in PyTorch, empty where nothing is; a part of the warning of it, if there may be one)"""
        lost = LOST.get(case.make)
        reference = reference_of(case)
        losses, state = self.losses_by_step(), self.trained_state()
        if len(losses) != STEPS or reference.difference(losses) > TIMES:
            return f"losses {losses}, in PyTorch {reference.losses}", lost
        try:
            case.module().load_state_dict(state, strict=True)
        except RuntimeError as error:
            return " ".join(str(error).split()), OTHER_NAMES
        for name, tensor in reference.module.state_dict().items():
            if (is_ours or name.rpartition(".")[2] not in MOVED) and (state[name] - tensor).abs().max() > 1e-3:
                return f"{name} is {state[name]}, in PyTorch {tensor}", lost
        return "", None


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
