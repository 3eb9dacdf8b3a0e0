"""Modules that models/rookery_export.py exports train here as they do in PyTorch, and come back strictly."""

import functools
import json
import unittest

import onnx
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

import exported
from exported import ExportTest, rookery_export
from torch_modules import LOST_BY_OTHERS, SAMPLES, case_of, sequences, traps


class Partly(traps.Guarded):
    """Gradients that flow one way and not the other: no file can say it."""

    def forward(self, x):
        y = self.body(x)
        with torch.no_grad():
            gate = torch.sigmoid(y)
        return self.head(torch.tanh(y) * gate)


class Copied(traps.Guarded):
    def forward(self, x):
        y = self.body(x)
        return self.head(torch.tanh(y) + y.data)


class Decided(traps.Guarded):
    def forward(self, x):
        x = self.body(x)
        return self.head(x if x.sum() > 0 else -2 * x)


class Hidden(Partly):
    """The same behind a head of zeros, where no gradient shows it."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.head.weight)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.jit.script(nn.Linear(6, 5))

    def forward(self, x):
        return self.head(x)


class Stateful(traps.Guarded):
    def get_extra_state(self):
        return torch.zeros(1)

    def set_extra_state(self, state):
        pass


class Uncounted(traps.Guarded):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        norm = self.norm
        return self.head(functional.batch_norm(self.body(x), norm.running_mean, norm.running_var, training=True))


class Differentiating(traps.Guarded):
    def forward(self, x):
        made = self.body(x)
        energy = made.pow(2).sum()
        return self.head(torch.autograd.grad(energy, made, create_graph=True)[0])


class Masked(nn.Module):
    def __init__(self, parameter, output):
        super().__init__()
        self.parameter, self.output = parameter, output
        self.register_parameter(parameter, nn.Parameter(torch.ones(6)))

    def forward(self, mask):
        return {self.output: getattr(self, self.parameter) * mask}


class Activated(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.head, self.activation = nn.Linear(6, 5), activation

    def forward(self, x):
        return self.activation(self.head(x))


def in_closure(function):
    return lambda x: function(x)


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.memory = nn.Linear(6, 8), nn.LSTM(8, 5, batch_first=True)

    def forward(self, x):
        with torch.no_grad():
            x = self.body(x)
        return self.memory(x)[0][:, -1]


class Gated(nn.Module):
    """What is lost shows only where ids are no padding."""

    def __init__(self):
        super().__init__()
        self.tokens, self.gate, self.head = nn.Embedding(11, 8, padding_idx=0), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, ids):
        x = self.tokens(ids)
        with torch.no_grad():
            gate = torch.sigmoid(self.gate(x))
        return self.head((x * gate * (ids != 0).unsqueeze(-1)).mean(1))


class Scaling(nn.Module):
    """Changes its input in place, as scripts that read images do."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x -= 0.5
        x /= 0.25
        return self.fc(x)


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(11, 8, sparse=True), nn.Linear(8, 5)

    def forward(self, ids):
        return self.head(self.tokens(ids).mean(1))


class OwnNorm(nn.BatchNorm1d):
    """BatchNorm written by hand, whose statistics only it moves."""

    def forward(self, x):
        mean, variance = x.mean(0), x.var(0, unbiased=False)
        if self.training:
            with torch.no_grad():
                self.running_mean.mul_(0.9).add_(0.1 * mean)
                self.running_var.mul_(0.9).add_(0.1 * variance)
        return (x - mean) / (variance + self.eps).sqrt() * self.weight + self.bias


class Checkpointed(nn.Module):
    """A BatchNorm that PyTorch runs once more in backward."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=False))


class Normed(Partly):
    """What is lost lies before a BatchNorm, through which no gradient runs where all samples are alike."""

    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 5))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return {"logits": self.head(x), "others": self.other(x)}


class Forgetting(traps.Guarded):
    """Dropout by names that are not PyTorch's."""

    def __init__(self):
        super().__init__()
        self.forget = nn.functional.dropout

    def forward(self, x):
        return self.head(dropout(self.forget(self.body(x), 0.1, self.training), 0.2, self.training))


class Hooked(traps.Guarded):
    def forward(self, x):
        x = torch.tanh(self.body(x))
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient.clamp(-100, 100))
        return self.head(x)


class Renormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 4))

    def forward(self, ids):
        return nn.functional.embedding(ids, self.weight, max_norm=50.0)


class SharingMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(6, 4), nn.Linear(4, 6)
        self.up.weight.data = self.down.weight.data.t()

    def forward(self, x):
        return self.up(torch.tanh(self.down(x)))


class Foreign(nn.Module):
    class Inner(nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(x)

    def __init__(self):
        super().__init__()
        self.fc, self.inner = nn.Linear(4, 4), Foreign.Inner()

    def forward(self, x):
        return self.inner(self.fc(x))


class Export(ExportTest):
    def test_frozen_body(self):
        before, state, rows = self.check(case_of(traps.Frozen))
        for name in ("body.0.weight", "body.0.bias", "body.1.weight", "middle.bias"):
            self.assertTrue(torch.equal(before[name], state[name]), name)
            self.assertFalse(rows[name]["trained"], name)
        self.assertTrue(rows["middle.weight"]["trained"])
        self.assertFalse(torch.equal(before["body.1.running_mean"], state["body.1.running_mean"]))

    def test_frozen_and_trained_by_the_settings(self):
        settings = {"frozen": ["*"], "trained": ["head.*", "body.0.bias"]}
        trained = {"head.weight", "head.bias", "body.0.bias"}
        _, _, rows = self.check(case_of(traps.Frozen), is_trained=trained, **settings)
        self.assertFalse(rows["middle.weight"]["trained"])
        self.assertTrue(rows["body.0.bias"]["trained"])

    def test_patterns_that_match_nothing_are_refused(self):
        case = case_of(traps.Frozen)
        rookery_export.export(case.module(), case.inputs(), self.node_data / "net.onnx")
        self.write_data(case.inputs(), case.targets())
        for patterns, message in ((["haed.*"], "frozen: no parameter is called 'haed.*'; there are head."),
                                  (["*"], "frozen: no parameter is left to train")):
            self.write_job(1, frozen=patterns)
            _, errors = self.run_program("clusterize", code=1)
            self.assertIn(message, errors)

    def test_batch_norm_in_eval(self):
        before, state, _ = self.check(case_of(traps.Evaluated))
        for name in ("one.running_mean", "one.running_var", "one.num_batches_tracked", "two.weight"):
            self.assertTrue(torch.equal(before[name], state[name]), name)
        self.assertFalse(torch.equal(before["one.weight"], state["one.weight"]))
        self.assertEqual(int(state["three.num_batches_tracked"]), exported.STEPS)

    def test_body_in_eval(self):
        self.check(case_of(traps.Tested))

    def test_all_in_eval(self):
        self.check(case_of(traps.Loaded))

    def test_inputs_may_be_changed_in_place(self):
        x = torch.rand(4, 6)
        before = x.clone()
        rookery_export.export(Scaling(), x, self.folder / "net.onnx")
        self.assertTrue(torch.equal(x, before))

    def test_padding(self):
        before, state, _ = self.check(case_of(traps.Padded))
        self.assertTrue(torch.equal(before["kinds.weight"][0], state["kinds.weight"][0]))
        self.assertFalse(torch.equal(before["kinds.weight"][1], state["kinds.weight"][1]))

    def test_detach(self):
        self.check(case_of(traps.Detached))

    def test_buffers(self):
        before, state, rows = self.check(case_of(traps.Buffers))
        for name in ("scale", "order", "history", "unused"):
            self.assertTrue(torch.equal(before[name], state[name]), name)
        self.assertEqual((rows["scale"]["kind"], rows["scale"]["trained"]), ("buffer", False))

    def test_no_grad(self):
        before, state, rows = self.check(case_of(traps.Guarded))
        self.assertTrue(torch.equal(before["body.weight"], state["body.weight"]))
        self.assertFalse(rows["body.weight"]["trained"])

    def test_what_a_file_cannot_say_is_refused(self):
        x = torch.randn(4, 6)
        self.assertIn("the gradient of body", self.refusal(Partly(), x))
        self.assertIn("the gradient of body", self.refusal(Hidden(), x))
        self.assertIn("the gradient of body", self.refusal(Normed(), torch.randn(1, 6)))
        self.assertIn("use torch.where", self.refusal(Decided(), x))
        self.assertIn(".data", self.refusal(Copied(), x))
        with_norm = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=None))
        self.assertIn("1 (BatchNorm1d): momentum=None", self.refusal(with_norm, x))
        twice = traps.Siamese().train()
        self.assertIn("body.1 (BatchNorm1d) is called 2 times", self.refusal(twice, x))
        self.assertIn("body.1 (BatchNorm1d) is called 2 times", self.refusal(Checkpointed(), x))
        own = nn.Sequential(nn.Linear(6, 8), OwnNorm(8), nn.Linear(8, 5))
        self.assertIn("forward moves 1.running_mean, 1.running_var by lines of its own", self.refusal(own, x))
        ids = torch.zeros(3, dtype=torch.int64)
        self.assertIn("max_norm", self.refusal(nn.Embedding(5, 4, max_norm=1.0), ids))
        self.assertIn("F.embedding: max_norm", self.refusal(Renormed(), ids))
        self.assertIn("the gradient of", self.refusal(Gated(), torch.zeros(2, 6, dtype=torch.int64)))
        elsewhere = nn.Linear(6, 5, device="meta")
        self.assertIn("weight is on meta: export from the processor's memory; call module.cpu()",
                      self.refusal(elsewhere, x))

    def test_modules_in_a_shape_that_no_exporter_reads_are_refused(self):
        x = torch.randn(4, 6)
        plain = traps.Guarded()
        self.assertIn("head (RecursiveScriptModule) is scripted", self.refusal(Scripted(), x))
        self.assertIn("1 (LazyLinear) does not know its sizes yet: call the module once",
                      self.refusal(nn.Sequential(nn.Linear(6, 8), nn.LazyLinear(5)), x))
        self.assertIn("the module (DataParallel) only wraps another: export its .module",
                      self.refusal(nn.DataParallel(plain), x))
        wrapper = nn.Sequential(plain)
        wrapper._orig_mod = plain
        self.assertIn("the module (Sequential) is compiled", self.refusal(wrapper, x))

    def test_examples_that_do_not_fit_are_refused(self):
        module = Masked("bias", "made")
        self.assertIn("the example does not fit forward(mask)", self.refusal(module, {"x": torch.randn(4, 6)}))
        self.assertIn("the example has no samples", self.refusal(module, torch.zeros(0, 6)))
        rookery_export.export(module, torch.randn(4, 6).numpy(), self.folder / "net.onnx")

    def test_tensors_that_no_state_dict_holds_are_refused(self):
        for what, make in (("is torch.float16", lambda: torch.ones(8).half()),
                           ("is torch.complex64", lambda: torch.ones(8) * 1j), ("has no elements", lambda: torch.zeros(0)),
                           ("has elements that share memory", lambda: torch.ones(1).expand(8))):
            module = traps.Guarded()
            module.register_buffer("table", make())
            self.assertIn(f"table {what}", self.refusal(module, torch.randn(4, 6)))
        module = traps.Guarded()
        module.ids = nn.Parameter(torch.arange(8), requires_grad=False)
        self.assertIn("make it a buffer", self.refusal(module, torch.randn(4, 6)))
        self.assertIn("the state dict has _extra_state", self.refusal(Stateful(), torch.randn(4, 6)))

    def test_statistics_that_move_without_their_layer_are_refused(self):
        self.assertIn("forward moves norm.running_mean, norm.running_var by lines of its own",
                      self.refusal(Uncounted(), torch.randn(4, 6)))

    def test_gradients_that_forward_computes_are_refused(self):
        message = self.refusal(Differentiating(), torch.randn(4, 6))
        self.assertIn("forward computes gradients (torch.autograd.grad)", message)
        self.assertIn("torch.autograd.grad(energy", message)

    def test_classes_of_a_given_number(self):
        class Sorted(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(7, 5)

            def forward(self, ids):
                return self.head(functional.one_hot(ids, 7).float().mean(1))

        rookery_export.export(Sorted(), torch.randint(0, 7, (4, 3)), self.folder / "net.onnx")

    def test_names_that_stand_for_two_tensors_are_refused(self):
        self.assertIn("'mask' is the name of a parameter or a buffer and of an argument of forward",
                      self.refusal(Masked("mask", "made"), torch.randn(4, 6)))
        self.assertIn("'bias' is the name of a parameter or a buffer and of what forward gives back",
                      self.refusal(Masked("bias", "bias"), torch.randn(4, 6)))
        self.assertIn("'mask' is the name of an argument of forward and of what forward gives back",
                      self.refusal(Masked("bias", "mask"), torch.randn(4, 6)))

    def test_functions_out_of_reach_are_refused(self):
        for kept in (functools.partial(functional.hardtanh, max_val=0.5), in_closure(functional.relu6),
                     in_closure(functional.logsigmoid)):
            self.assertIn("call F.", self.refusal(Activated(kept), torch.randn(4, 6)))
        largest = functools.partial(torch.max, dim=1)
        self.assertIn("call torch.max", self.refusal(Activated(lambda x: largest(x)[0]), torch.randn(4, 6)))
        for kept in (functional.relu6, functools.partial(torch.amax, dim=1), lambda x: torch.max(x, dim=1)[0]):
            rookery_export.export(Activated(kept), torch.randn(4, 6), self.folder / "net.onnx")

    def test_hooks_on_gradients_and_shared_memory_are_refused(self):
        x = torch.randn(4, 6)
        hooked = traps.Guarded()
        hooked.head.weight.register_hook(lambda gradient: gradient.clamp(-5, 5))
        self.assertIn("head.weight: its hooks on gradients", self.refusal(hooked, x))
        layer = traps.Guarded()
        layer.head.register_full_backward_hook(lambda *_: None)
        self.assertIn("head (Linear): its hooks on gradients", self.refusal(layer, x))
        self.assertIn("forward registers a hook on a gradient", self.refusal(Hooked(), x))
        self.assertIn("down.weight and up.weight share memory", self.refusal(SharingMemory(), x))

    def test_what_the_loss_never_reaches_is_not_trained(self):
        class Stopped(traps.Guarded):
            def forward(self, x):
                return self.head(torch.tanh(self.body(x)).detach())

        for module, x in ((Stopped(), torch.randn(4, 6)), (Remembering(), torch.randn(4, 3, 6))):
            rookery_export.export(module, x, self.folder / "net.onnx")
            described = {entry.key: entry.value for entry in onnx.load(self.folder / "net.onnx").metadata_props}
            trained = json.loads(described[rookery_export.METADATA_KEY])["parameters"]
            self.assertEqual(trained, {name: not name.startswith("body") for name, _ in module.named_parameters()})

    def test_what_no_loss_takes_is_not_decayed(self):
        module, targets = TwoHeads(), torch.arange(SAMPLES) % 5
        inputs = {"x": torch.randn(SAMPLES, 6)}
        rookery_export.export(module, inputs, self.node_data / "net.onnx")
        self.write_data(inputs, targets)
        self.write_job(2)
        settings = json.loads((self.node_data / "train.json").read_text())
        settings.update(loss=[{"output": "logits", "loss": "cross_entropy"}],
                        optimizer={"name": "adamw", "learning_rate": 0.1, "weight_decay": 0.5})
        (self.node_data / "train.json").write_text(json.dumps(settings))
        for command in ("clusterize", "launch"):
            self.run_program(command)
        self.fuse()
        state = self.trained_state()
        for name, tensor in module.state_dict().items():
            self.assertEqual(torch.equal(state[name], tensor), name.startswith("other"), name)
        rookery_export.load(module, self.folder / "trained")

    def test_what_the_exporters_lack_is_told_with_its_place(self):
        message = self.refusal(Foreign(), torch.randn(2, 4, 4))
        self.assertIn("matrix_exp", message)
        self.assertIn("return torch.linalg.matrix_exp(x)", message)
        self.assertIn("in inner", message)

    def test_sparse_gradients_are_compared(self):
        rookery_export.export(Sparse(), torch.randint(0, 11, (4, 6)), self.folder / "net.onnx")

    def test_functions_by_other_names(self):
        rookery_export.export(Forgetting(), torch.randn(4, 6), self.folder / "net.onnx")
        operators = [node.op_type for node in onnx.load(self.folder / "net.onnx").graph.node]
        self.assertEqual(operators.count("Dropout"), 2)

    def test_gradients_at_zeros(self):
        self.check(case_of(traps.Corners))

    def test_gradients_at_bounds_and_of_equal_numbers(self):
        self.check(case_of(traps.Bounds))

    def test_parameters_of_one_number(self):
        self.check(LOST_BY_OTHERS[0])

    def test_pixels_of_odd_factors(self):
        self.check(case_of(traps.Stretched))

    def test_rows_that_see_nothing(self):
        self.check(case_of(sequences.LeftPadded))

    def test_rotary_embeddings(self):
        self.check(case_of(sequences.Rotary))


class ExportByProgram(exported.ByProgram, Export):
    """The same by PyTorch's newer exporter."""


class OtherPyTorches(exported.OtherPyTorches):
    script = __file__


if __name__ == "__main__":
    unittest.main()
