"""Exports a PyTorch module for Rookery, so that it trains there as it would in PyTorch.

    import rookery_export

    rookery_export.export(module, example_inputs, "net.onnx")
    rookery_export.export_data(dataset, "data.safetensors")
    rookery_export.load(module, "trained/")

Needs torch (1.13 or newer) and onnx alone, which brings numpy. What ONNX has no place for, and what decides whether
training is right, is written into the file's metadata, under METADATA_KEY, as JSON; models/io/FORMAT.md describes it.
"""

import argparse
import collections.abc
import contextlib
import functools
import inspect
import io
import json
import pathlib
import random
import re
import struct
import sys
import tempfile
import traceback
import types
import unittest.mock
import warnings
from operator import length_hint

import numpy
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

METADATA_KEY = "rookery_module"
METADATA_VERSION = 1
DOMAIN = "rookery"
OPSETS = (17, 18)  # of the exporter that traces with TorchScript, of the one with torch.export
CLOSE = 2e-4  # of the largest element
ROUNDING = 3e-6  # of the largest gradient of all: others are 0 in theory


class ExportError(Exception):
    """Says what cannot be exported, where it stands in the module, and a way around it."""


# ---------------------------------------------------------------------------------------------------------
# The three lines


def export(module, example_inputs, path, output_names=None):
    """Writes `module` as the ONNX file `path`.

    example_inputs: a tensor, a tuple of tensors in the order of forward, or a dict by the names of forward's
    arguments; the first dimension of each is the batch. What is in training mode or in eval(), what requires
    a gradient and what does not, stays so when it is trained. The module is left as it was.
    Raises ExportError.
    """
    inputs = _named_inputs(module, example_inputs)
    _check_layers(module)
    outcomes = []
    with _unchanged(module):
        with _with_their_gradients(module):
            place = _place_of(module, inputs, "_local_scalar_dense", of_user=True)
        outputs = _check_calls(module, inputs)
        _check_names(module, inputs, [*outputs, *(output_names or [])])
    with _unchanged(module):
        statistics = _check_state(module, inputs)
    if place:
        raise ExportError(
            f"forward takes a tensor's value for a number of Python's (if, for, .item(), int(), float()){place}; what "
            "it decides would stay as it is now: use torch.where, masks or tensors"
        )
    with _unchanged(module) as before, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for way in (_export_by_trace, _export_by_program):
            try:
                with _unchanged(module):
                    model = way(module, inputs)
                _finish(model, module, before, output_names)
                _compare(model, module, inputs, statistics)
            except ExportError as error:
                outcomes.append((way, error))
                continue
            except Exception as error:  # whatever the exporters raise
                outcomes.append((way, _explained(module, inputs, error)))
                continue
            onnx.save(model, str(path))
            break
    if len(outcomes) < 2:
        _tell_of_values(told)
        return
    raise ExportError(_joined(outcomes)) from outcomes[0][1]


def export_data(dataset, path, names=None):
    """Writes a data set as the safetensors file `path`.

    dataset: a dict of tensors by name, a tuple of tensors, or a Dataset whose items are dicts or tuples.
    names: of a tuple's tensors, as forward calls its arguments, then the targets of the losses; by default
    "input" and "labels".
    """
    tensors = dataset if isinstance(dataset, (dict, tuple, list, torch.Tensor)) else _collected(dataset)
    if isinstance(tensors, torch.Tensor):
        tensors = (tensors,)
    if not isinstance(tensors, dict):
        names = names or ("input", "labels")[: len(tensors)]
        if len(names) != len(tensors):
            raise ExportError(f"there are {len(tensors)} tensors, but {len(names)} names: give names=")
        tensors = dict(zip(names, tensors))
    sizes = {name: len(tensor) for name, tensor in tensors.items()}
    if len(set(sizes.values())) != 1:
        raise ExportError(f"the tensors have different numbers of samples: {sizes}")
    _write_safetensors(path, {name: torch.as_tensor(tensor) for name, tensor in tensors.items()})


def load(module, folder):
    """Loads what was trained into `module`, strictly, and returns it."""
    path = pathlib.Path(folder)
    path = path / "trained_state_dict.pt" if path.is_dir() else path
    options = {"weights_only": True} if "weights_only" in inspect.signature(torch.load).parameters else {}
    module.load_state_dict(torch.load(str(path), map_location="cpu", **options), strict=True)
    return module


# ---------------------------------------------------------------------------------------------------------
# The module


def _named_inputs(module, example):
    """Tensors by the names of forward's arguments, of two samples or more: one sample cannot show what is the
    batch."""
    if isinstance(example, (torch.Tensor, numpy.ndarray)):
        example = (example,)
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(**example) if isinstance(example, dict) else signature.bind(*example)
    except TypeError as error:
        raise ExportError(f"the example does not fit forward{signature}: {error}") from error
    inputs = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            inputs.update({f"{name}_{i}": tensor for i, tensor in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            inputs.update(value)
        else:
            inputs[name] = value
    inputs = {name: torch.from_numpy(value) if isinstance(value, numpy.ndarray) else value
              for name, value in inputs.items()}
    for name, tensor in inputs.items():
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
            raise ExportError(
                f"argument {name!r} of forward is no tensor of samples: make it an attribute of the module, or "
                "give it a default value and leave it out of the example"
            )
    sizes = {tensor.shape[0] for tensor in inputs.values()}
    if len(sizes) != 1:
        shapes = {name: list(tensor.shape) for name, tensor in inputs.items()}
        raise ExportError(f"the inputs have different numbers of samples in their first dimension: {shapes}")
    if sizes == {0}:
        raise ExportError("the example has no samples: give one, or more")
    samples = max(sizes.pop(), 2)
    return {name: _repeated(tensor.detach(), samples) for name, tensor in inputs.items()}


def _repeated(tensor, samples):
    """So many samples, taken in turn from the tensor's."""
    return tensor[torch.arange(samples) % tensor.shape[0]].clone()


def _call(module, inputs):
    """forward of the module by position where it has names for all, so that tracers see the same call. It may change
    its inputs in place."""
    inputs = _copied(inputs)
    return module(*inputs.values()) if _is_positional(module, inputs) else module(**inputs)


def _copied(inputs):
    return {name: tensor.clone() for name, tensor in inputs.items()}


def _is_positional(module, inputs):
    arguments = inspect.signature(module.forward).parameters
    if any(argument.kind is inspect.Parameter.VAR_POSITIONAL for argument in arguments.values()):
        return True
    takes = [name for name, argument in arguments.items() if argument.kind is not inspect.Parameter.KEYWORD_ONLY]
    return takes[: len(inputs)] == list(inputs)


@contextlib.contextmanager
def _unchanged(module):
    """Puts back parameters, buffers, attributes and what lists and dicts among them hold, the modes and the random
    numbers: what forward does in its first call it does again. Gives the state."""
    before = {name: tensor.detach().clone() for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    attributes = [(vars(layer), dict(vars(layer))) for layer in module.modules()]
    contents = [(value, value.copy()) for _, kept in attributes for value in kept.values()
                if type(value) in (dict, list, set, collections.OrderedDict)]
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    drawn = torch.get_rng_state()
    try:
        yield before
    finally:
        for place, kept in attributes:
            place.clear()
            place.update(kept)
        for value, kept in contents:
            value.clear()
            value.extend(kept) if isinstance(value, list) else value.update(kept)
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                tensor.copy_(before[name])
        for parameter, gradient in gradients:
            parameter.grad = gradient
        torch.set_rng_state(drawn)


_KNOWN_TYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)
_HOOKS = "its hooks on gradients are not exported; take them away, and clip by clip_gradient_norm of train.json"


def _sharing_memory(tensors):
    """Pairs of names of different tensors some of whose elements lie in the same place."""
    places = {}
    for name, tensor in tensors:
        if tensor.numel() > 0 and id(tensor) not in places:
            length = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
            begin = tensor.data_ptr()
            places[id(tensor)] = (str(tensor.device), begin, begin + length * tensor.element_size(), name)
    in_order = sorted(places.values())
    return [(a[3], b[3]) for a, b in zip(in_order, in_order[1:]) if a[0] == b[0] and b[1] < a[2]]


def _check_layers(module):
    """What no export can say."""
    problems = []
    for name, layer in module.named_modules():
        what = f"{name or 'the module'} ({type(layer).__name__})"
        if isinstance(layer, torch.jit.ScriptModule):
            raise ExportError(f"{what} is scripted or traced by torch.jit: export the module that it was made of")
        if isinstance(layer, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            raise ExportError(f"{what} only wraps another: export its .module")
        if hasattr(layer, "_orig_mod"):
            raise ExportError(f"{what} is compiled: export the module that torch.compile was given, its ._orig_mod")
        if isinstance(layer, nn.modules.lazy.LazyModuleMixin) and layer.has_uninitialized_params():
            raise ExportError(f"{what} does not know its sizes yet: call the module once, with the example")
    for name, layer in module.named_modules():
        what = f"{name or 'the module'} ({type(layer).__name__})"
        if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
            problems.append(f"{what}: max_norm changes weights in forward; clip them in your own code, without it")
        if isinstance(layer, nn.Embedding) and layer.scale_grad_by_freq:
            problems.append(f"{what}: scale_grad_by_freq is not known to Rookery; leave it out")
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            if layer.momentum is None and layer.track_running_stats:
                problems.append(f"{what}: momentum=None (a cumulative mean) is not known to Rookery; give a number")
            if not layer.track_running_stats:
                problems.append(f"{what}: track_running_stats=False is not known to Rookery; use InstanceNorm or True")
        if getattr(layer, "_backward_hooks", None) or getattr(layer, "_backward_pre_hooks", None):
            problems.append(f"{what}: {_HOOKS}")
    for name, parameter in module.named_parameters():
        if parameter.device.type != "cpu":
            problems.append(f"{name} is on {parameter.device}: export from the processor's memory; call module.cpu()")
        if parameter.dtype is not torch.float32:
            way = "call module.float()" if parameter.is_floating_point() else "make it a buffer (register_buffer)"
            problems.append(f"{name} is {parameter.dtype}: Rookery trains float32; {way}")
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            problems.append(f"{name}: {_HOOKS}")
    for name, tensor in _all_tensors(module):
        if tensor.numel() == 0:
            problems.append(f"{name} has no elements: leave it out")
        if tensor.dtype not in _KNOWN_TYPES and not isinstance(tensor, nn.Parameter):
            problems.append(f"{name} is {tensor.dtype}, which Rookery does not have: convert it, to float or long")
        if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride())):
            problems.append(f"{name} has elements that share memory, as expand() makes them: call .clone()")
    strange = [name for name in module.state_dict() if name not in dict(_all_tensors(module))]
    if strange:
        problems.append(f"the state dict has {', '.join(strange)}, which is no parameter and no buffer: leave out "
                        "get_extra_state and hooks that rename, and keep it elsewhere")
    for one, other in _sharing_memory(_all_tensors(module)):
        problems.append(
            f"{one} and {other} share memory without being one: let both be one parameter (b.weight = a.weight), or "
            f"compute the second from the first in forward (F.linear(x, a.weight.t()))"
        )
    if problems:
        raise ExportError("cannot be exported:\n  " + "\n  ".join(problems))


def _are_equal(one, other):
    return torch.equal(one, other) or (
        one.is_floating_point() and torch.equal(one.nan_to_num(), other.nan_to_num()))


_OWN_ATTRIBUTES = frozenset(vars(nn.Module()))


def _read_by(function, codes):
    """(name, value) of what a function of the user reads that is not its own: variables of its file and of functions
    around it; so of the functions that it calls. `codes`: of those that were looked at."""
    function = getattr(function, "__wrapped__", getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    if code is None or code in codes or "-packages" in code.co_filename or _is_of_torch(code.co_filename):
        return
    codes.add(code)
    inner = [code]
    for each in inner:
        inner += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]
    file = function.__globals__
    read = [(name, file[name]) for each in inner for name in each.co_names if name in file]
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):  # empty
            read.append((name, cell.cell_contents))
    for name, value in read:
        if isinstance(value, types.FunctionType):
            yield from _read_by(value, codes)
        elif not isinstance(value, (types.ModuleType, type, nn.Module)):
            yield name, value


def _state_of_python(module):
    """{what: its value} of what forward could change besides parameters and buffers: attributes, what they contain,
    variables of files and functions, and generators of random numbers."""
    drawn = numpy.random.get_state()
    state = {"the generator of Python's random": random.getstate(),
             "the generator of numpy.random": (drawn[0], drawn[1].tobytes(), *drawn[2:])}
    seen = {}  # by id; kept, so that no other object gets it
    codes = set()

    def look(name, value, depth=0):
        if isinstance(value, (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)):
            state[name] = value
        elif isinstance(value, torch.Tensor):
            if value.layout is torch.strided and value.device.type != "meta":
                state[name] = value.detach().clone()
        elif isinstance(value, (numpy.ndarray, numpy.generic)):
            state[name] = value.tobytes()
        elif isinstance(value, random.Random):
            state[name] = value.getstate()
        elif isinstance(value, torch.Generator):
            state[name] = value.get_state()
        elif isinstance(value, numpy.random.Generator):
            look(name, value.bit_generator.state, depth)
        elif isinstance(value, numpy.random.RandomState):
            look(name, value.get_state(legacy=False), depth)
        elif isinstance(value, (set, frozenset)):
            state[name] = frozenset(map(repr, value))
        elif isinstance(value, collections.abc.Iterator):
            state[name] = (repr(value), length_hint(value, -1))
        elif depth < 8 and id(value) not in seen:
            seen[id(value)] = value
            for place, each in inside(value).items():
                look(name + place, each, depth + 1)

    def inside(value):
        if isinstance(value, dict):
            return {f"[{key!r}]": each for key, each in value.items()}
        if isinstance(value, (list, tuple, collections.deque)):
            return {f"[{i}]": each for i, each in enumerate(value)}
        if isinstance(value, functools.partial):
            return {".args": value.args, ".keywords": value.keywords}
        if isinstance(value, (type, nn.Module)):  # classes of what is looked into are looked into themselves
            return {}
        library = type(value).__module__.split(".")[0]
        is_of_user = library not in ("torch", *getattr(sys, "stdlib_module_names", ()))
        if is_of_user or isinstance(value, (argparse.Namespace, types.SimpleNamespace)):
            return {f".{key}": each for key, each in getattr(value, "__dict__", {}).items()}
        return {}

    for name, layer in module.named_modules():
        for attribute, value in vars(layer).items():
            if attribute not in _OWN_ATTRIBUTES:
                look(f"{name}.{attribute}".lstrip("."), value)
        for kind in type(layer).__mro__:
            if kind.__module__.split(".")[0] == "torch":
                continue
            for attribute, value in vars(kind).items():
                if not attribute.startswith("__"):
                    look(f"{kind.__name__}.{attribute}", value)
                for name_of_other, other in _read_by(value, codes):
                    look(name_of_other, other)
    return state


def _is_same_value(one, other):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and _are_equal(one, other)
    return type(one) is type(other) and (one == other or one != one)


def _changes_of_python(module, inputs):
    """What changes with every call of forward, even with the same numbers: what only keeps what was computed last, or
    is computed once, does not."""
    states = []
    for _ in range(2):
        with torch.no_grad(), _without_dropout(module), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(0)
            _call(module, inputs)
        states.append(_state_of_python(module))
    one, other = states
    return [name for name in {**one, **other}
            if name not in one or name not in other or not _is_same_value(one[name], other[name])]


def _limited(module, inputs):
    """Parameters that forward changes once they are large, as what keeps weights within bounds does."""
    far = {}
    with _unchanged(module), torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name, parameter in module.named_parameters():
            parameter.copy_(1e3 * torch.randn(parameter.shape))
            far[name] = parameter.clone()
        with contextlib.suppress(Exception):  # forward need not stand such weights
            _call(module, inputs)
        return [name for name, parameter in module.named_parameters() if not _are_equal(parameter, far[name])]


def _check_state(module, inputs):
    """What forward leaves behind is not in the file, but for running statistics of BatchNorm; the names of those that
    it moves."""
    moving = {
        f"{name}.{buffer}".lstrip(".")
        for name, layer in module.named_modules(remove_duplicate=False)
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training
        for buffer in ("running_mean", "running_var", "num_batches_tracked")
    }
    tensors = {name: (each, each.data_ptr(), each.detach().clone()) for name, each in _all_tensors(module)}
    behind = {}  # by id of the statistics: what PyTorch's function has made of them

    def batch_norm(input, running_mean, running_var, *rest, **options):
        made = _BATCH_NORM(input, running_mean, running_var, *rest, **options)
        behind.update({id(each): each.clone() for each in (running_mean, running_var) if each is not None})
        return made

    try:
        with torch.no_grad(), _replaced(module, {"batch_norm": batch_norm}):
            _call(module, inputs)
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
        raise ExportError(f"forward computes gradients (torch.autograd.grad){_place_in(error)}: what it does with them is "
                          "not exported; write them as functions of their own") from error
    moved, by_hand, changed = [], [], []
    for name, tensor in _all_tensors(module):
        if name not in tensors:  # made in the first call
            continue
        one, place, value = tensors[name]
        is_same = tensor is one and tensor.data_ptr() == place and _are_equal(tensor, value)
        if is_same:
            continue
        (moved if name in moving else changed).append(name)
        is_counted = name.endswith("num_batches_tracked")
        if name in moving and not is_counted and not (id(tensor) in behind and _are_equal(behind[id(tensor)], tensor)):
            by_hand.append(name)
    for name in moved:  # by F.batch_norm, without the layer, which counts
        counter = f"{name.rpartition('.')[0]}.num_batches_tracked".lstrip(".")
        if counter in tensors and counter not in moved and name not in by_hand:
            by_hand.append(name)
    changed += [name for name in _changes_of_python(module, inputs) if name not in changed]
    changed += [name for name in _limited(module, inputs) if name not in changed]
    if by_hand:
        raise ExportError(f"forward moves {', '.join(sorted(by_hand))} by lines of its own, which are not exported: let "
                          "PyTorch's BatchNorm do it, or call eval() of the layer")
    if changed:
        raise ExportError(
            f"forward changes {', '.join(sorted(changed))}: what it leaves behind is not exported. Leave it out, call eval() "
            f"of its layer if it then stays, or do it in your own code between runs"
        )
    return moved


def _check_calls(module, inputs):
    """Running statistics move once a step, functions do not change weights, and gradients are left as they are. Gives the
    names of what forward gives back."""
    calls, hooks = {}, []

    def embed(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
        if max_norm is not None:
            raise ExportError("F.embedding: max_norm changes weights in forward; clip them in your own code, without it")
        if scale_grad_by_freq:
            raise ExportError("F.embedding: scale_grad_by_freq is not known to Rookery; leave it out")
        return _EMBEDDING(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)

    def refuse_hook(*_):
        raise ExportError(f"forward registers a hook on a gradient: {_HOOKS}")

    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            what = f"{name or 'the module'} ({type(layer).__name__})"
            count = lambda *_, what=what: calls.update({what: calls.get(what, 0) + 1})  # noqa: E731
            hooks.append(layer.register_forward_pre_hook(count))  # checkpoint() ends a second call before its end
    try:
        with _with_their_gradients(module), _replaced(module, {"embedding": embed}), _AllReplaced(), \
                unittest.mock.patch.object(torch.Tensor, "register_hook", refuse_hook):
            outputs = _outputs_of(_call(module, inputs))
            total = _weigh(outputs.values())
        if isinstance(total, torch.Tensor):
            with contextlib.suppress(RuntimeError):  # the comparison runs backward, too, and tells what fails
                total.backward()  # in which checkpoint() runs forward once more
    finally:
        for hook in hooks:
            hook.remove()
    for what, count in calls.items():
        if count > 1:
            raise ExportError(f"{what} is called {count} times in a step: give each call a BatchNorm of its own, or "
                              "eval(), and leave out checkpoint()")
    return list(outputs)


def _check_names(module, inputs, outputs):
    """In a file a name is one tensor's."""
    taken = dict.fromkeys(outputs, "what forward gives back")
    for kind, names in (("an argument of forward", list(inputs)), ("a parameter or a buffer", dict(_all_tensors(module)))):
        for name in names:
            if name in taken:
                raise ExportError(f"{name!r} is the name of {kind} and of {taken[name]}: rename one of them")
        taken.update(dict.fromkeys(names, kind))


def _groups(tensors):
    """Names of each tensor that has several, first the one that comes first; and that first of every name."""
    first, groups = {}, {}
    for name, tensor in tensors:
        groups.setdefault(id(tensor), []).append(name)
    for names in groups.values():
        first.update({name: names[0] for name in names})
    return {names[0]: names[1:] for names in groups.values() if len(names) > 1}, first


def _all_tensors(module):
    """(name, tensor) of all parameters and buffers under all names that they have, in the state dict's order,
    those that are not in it behind."""
    own = {}
    for prefix, layer in module.named_modules(remove_duplicate=False):
        for kind in (layer._parameters, layer._buffers):
            own.update({f"{prefix}.{name}".lstrip("."): tensor for name, tensor in kind.items() if tensor is not None})
    order = [name for name in module.state_dict() if name in own]
    return [(name, own[name]) for name in order + [name for name in own if name not in order]]


def _describe(module, no_gradient):
    """The metadata: what a file of ONNX has no place for. `no_gradient`: parameters that the loss never reaches."""
    state = module.state_dict()
    tensors = _all_tensors(module)
    tied, _ = _groups(tensors)
    parameters = {name for name, tensor in tensors if isinstance(tensor, nn.Parameter)}
    second = {name for names in tied.values() for name in names}
    return {
        "version": METADATA_VERSION,
        "torch": torch.__version__.split("+")[0],
        "parameters": {
            name: bool(tensor.requires_grad) and name not in no_gradient
            for name, tensor in tensors
            if name in parameters and name not in second
        },
        "buffers": {name: name in state for name, tensor in tensors if name not in parameters and name not in second},
        "tied": {name: names[0] for names in ([first, *more] for first, more in tied.items()) for name in names[1:]},
        "state_dict": list(state),
        "versions": {name: entry.get("version") for name, entry in getattr(state, "_metadata", {}).items()},
        "eval": [
            name
            for name, layer in module.named_modules()
            if not layer.training and isinstance(layer, (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd))
        ],
        "padding": {
            f"{name}.weight".lstrip("."): layer.padding_idx
            for name, layer in module.named_modules()
            if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)) and layer.padding_idx is not None
        },
    }


# ---------------------------------------------------------------------------------------------------------
# The exporters of PyTorch


def _outputs_of(made):
    """{name: tensor} of what forward gave back."""
    if isinstance(made, torch.Tensor):
        return {"output": made}
    if isinstance(made, dict):
        named = dict(made)
    elif hasattr(made, "_fields"):
        named = dict(zip(made._fields, made))
    elif isinstance(made, (tuple, list)):
        named = {f"output_{i}": each for i, each in enumerate(made)}
    else:
        raise ExportError(f"forward gives back a {type(made).__name__}: return a tensor, a tuple or a dict of tensors")
    for name, each in named.items():
        if not isinstance(each, torch.Tensor):
            raise ExportError(f"forward gives back a {type(each).__name__} as {name}: return tensors alone")
    return named


@contextlib.contextmanager
def _replaced(module, functions):
    """`functions`: {name in torch.nn.functional: what takes its place}, there and by whatever name files that are
    not PyTorch's (`from torch.nn.functional import relu6`), layers (`self.activation = F.relu6`) and dicts of theirs
    (`{"relu6": F.relu6}`) keep them."""
    others = {id(getattr(F, name)): function for name, function in functions.items() if hasattr(F, name)}
    places = [vars(F), *map(vars, module.modules())]
    for name, file in list(sys.modules.items()):
        if isinstance(file, types.ModuleType) and name.split(".")[0] != "torch" and vars(file) is not globals():
            places.append(vars(file))
    places += [kept for place in places for kept in list(place.values()) if type(kept) is dict]
    with contextlib.ExitStack() as patches:
        for place in places:
            for name, kept in [entry for entry in place.items() if id(entry[1]) in others]:
                patches.callback(place.__setitem__, name, kept)
                place[name] = others[id(kept)]
        yield


def _chunk(self, chunks, dim=0):
    return self.split(-(-int(self.shape[dim]) // chunks), dim)


def _repeat_interleave(self, repeats, dim=None, **options):
    if dim is None or not isinstance(repeats, int):
        return _REPEAT_INTERLEAVE(self, repeats, dim, **options)
    dim = dim % self.dim()
    sizes = [-1] * (self.dim() + 1)
    sizes[dim + 1] = repeats
    return self.unsqueeze(dim + 1).expand(sizes).flatten(dim, dim + 1)


_REPEAT_INTERLEAVE = torch.Tensor.repeat_interleave
_BATCH_NORM, _EMBEDDING = F.batch_norm, F.embedding
_ATTENTION = getattr(F, "scaled_dot_product_attention", None)


def _hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """At its bounds, where zeros of padding and of black lie, it has no gradient; Clip has."""
    made = _above(_below(input, max_val), min_val)
    return input.copy_(made) if inplace else made


def _above(x, bound):
    """max(x, bound), a number, without a gradient at the bound."""
    if bound == 0:
        return x.relu()
    return torch.where(x <= bound, torch.full((), float(bound), dtype=x.dtype), x)


def _below(x, bound):
    return torch.where(x >= bound, torch.full((), float(bound), dtype=x.dtype), x)


def _relu6(input, inplace=False):
    return _hardtanh(input, 0.0, 6.0, inplace)


def _pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """Which exporters write without eps, so that equal vectors have other gradients."""
    return torch.norm(x1 - x2 + eps, p=p, dim=-1, keepdim=keepdim)


def _extreme(original, sign):
    """max() along a dimension, or min() with a sign of -1: only the first of the elements that are the largest has a
    gradient, not each."""

    def extreme(input, *arguments, **options):
        given = dict(zip(("dim", "keepdim"), arguments), **options)
        dim, keepdim = given.pop("dim", None), given.pop("keepdim", False)
        if not isinstance(dim, int) or given or not input.is_floating_point():
            return original(input, *arguments, **options)
        x = input if sign > 0 else -input
        is_largest = x == x.amax(dim, keepdim=True)
        is_first = is_largest & (is_largest.to(x.dtype).cumsum(dim) == 1)
        values = torch.where(is_first, x, torch.zeros((), dtype=x.dtype)).sum(dim, keepdim=keepdim)
        return _Extreme(values if sign > 0 else -values, x.argmax(dim, keepdim=keepdim))

    return extreme


def _gradient_at_bound(bound):
    """Of clamp() where it is at that bound."""
    x = torch.zeros((), requires_grad=True)
    return float(torch.autograd.grad(x.clamp(min=bound), x)[0])


# Numbers have a gradient at their bound until PyTorch 2.13, as Clip has; Max has half of it, which tensors have since.
_CLAMPS_OPENLY = _gradient_at_bound(0.0) == 0
_CLAMPS_WHOLLY = _gradient_at_bound(torch.zeros(())) == 1


_CLAMPS = [f"{name}{end}" for name in ("clamp", "clip", "clamp_min", "clamp_max") for end in ("", "_")]


def _clamped(original, name, is_clip):
    """clamp(), clip(), clamp_min() or clamp_max(), in place or not, as this PyTorch has their gradients. `is_clip`: of
    numbers the exporter makes a Clip, and no Max and Min."""

    def clamped(input, *arguments, **options):
        names = ("max",) if name.startswith("clamp_max") else ("min", "max")
        bounds = {side: bound for side, bound in dict(zip(names, arguments), **options).items() if bound is not None}
        is_number = not any(isinstance(bound, torch.Tensor) for bound in bounds.values())
        if not input.is_floating_point() or not bounds.keys() <= {"min", "max"} or (
                is_number and is_clip and not _CLAMPS_OPENLY):
            return original(input, *arguments, **options)
        made = input
        for side, bound in sorted(bounds.items(), reverse=True):  # max counts where it is below min
            is_number = not isinstance(bound, torch.Tensor)
            if is_number and _CLAMPS_OPENLY:
                made = _above(made, bound) if side == "min" else _below(made, bound)
            elif is_number or _CLAMPS_WHOLLY:
                limit = torch.full((), float(bound), dtype=made.dtype) if is_number else bound
                made = torch.where(made < limit if side == "min" else made > limit, limit, made)
            else:
                made = (torch.maximum if side == "min" else torch.minimum)(made, bound)
        return input.copy_(made) if name.endswith("_") else made

    return clamped


def _global_max_pool(dimensions):
    """adaptive_max_pool() to one place: of equal numbers the first has the gradient, and not all."""
    original, max_pool = getattr(F, f"adaptive_max_pool{dimensions}d"), getattr(F, f"max_pool{dimensions}d")

    def pool(input, output_size, return_indices=False):
        sizes = output_size if isinstance(output_size, (tuple, list)) else [output_size]
        if return_indices or any(size != 1 for size in sizes):
            return original(input, output_size, return_indices)
        return max_pool(input, [int(size) for size in input.shape[-dimensions:]])

    return pool


def _bilinear(input1, input2, weight, bias=None):
    made = (input1[..., None, None, :] @ weight).squeeze(-2) * input2[..., None, :]
    return made.sum(-1) if bias is None else made.sum(-1) + bias


def _one_hot(tensor, num_classes=-1):
    if num_classes < 0:
        return _ONE_HOT(tensor, num_classes)
    return (tensor[..., None] == torch.arange(num_classes)).to(torch.int64)


_ONE_HOT = F.one_hot
_Extreme = collections.namedtuple("_Extreme", ("values", "indices"))


def _logsigmoid(input):
    """Not Log(Sigmoid), which is infinite far below zero."""
    return -F.softplus(-input)


def _unflatten(self, dim, sizes):
    dim = dim % self.dim()
    return self.reshape([*self.shape[:dim], *sizes, *self.shape[dim + 1 :]])


_OF_OTHER_GRADIENTS = {"hardtanh": _hardtanh, "relu6": _relu6, "logsigmoid": _logsigmoid,
                       "pairwise_distance": _pairwise_distance}
# Functions of Python's that are called tell by their names in F, where others have taken their places.
_NAMES_OF_THESE = {each: f"F.{name}" for name, other in _OF_OTHER_GRADIENTS.items() for each in (getattr(F, name), other)}
_NAMES_OF_EXTREMES = {getattr(place, name): f"torch.{name}" for place in (torch, torch.Tensor) for name in ("max", "min")}
_NAMES_OF_CLAMPS = {getattr(place, name): f"torch.{name}" for place in (torch, torch.Tensor)
                    for name in _CLAMPS if hasattr(place, name)}


class _AllReplaced(torch.overrides.TorchFunctionMode):
    """Refuses those functions of other gradients that a closure, a class or a partial keeps, out of the reach of what
    replaces them."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = _NAMES_OF_THESE.get(function)
        given = [*args[1:], *kwargs.values()]
        if args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            if any(type(each) is int for each in given):  # a dimension
                name = name or _NAMES_OF_EXTREMES.get(function)
            if _CLAMPS_OPENLY or any(isinstance(each, torch.Tensor) for each in given):
                name = name or _NAMES_OF_CLAMPS.get(function)
        if name:
            raise ExportError(f"a function, a class or a functools.partial keeps {name}, which what exports its gradients "
                              f"cannot replace there: call {name} in forward")
        return function(*args, **kwargs)


# From 2.5 on a row of attention that a mask hides throughout is zero, and no NaN, which exporters know in part.
_ZEROES_HIDDEN_ROWS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    scale = float(query.shape[-1]) ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        attn_mask = torch.ones(int(scores.shape[-2]), int(scores.shape[-1]), dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores + (attn_mask.to(scores.dtype).log() if attn_mask.dtype == torch.bool else attn_mask)
    shares = scores.softmax(-1)
    if _ZEROES_HIDDEN_ROWS and not is_causal:
        shares = torch.where(shares.isnan(), torch.zeros(()), shares)
    return (F.dropout(shares, dropout_p) if dropout_p > 0 else shares) @ value


def _masked_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
    scale = options.get("scale")
    if scale is None and not options.get("enable_gqa") and (attn_mask is None or not _ZEROES_HIDDEN_ROWS):
        return _ATTENTION(query, key, value, attn_mask, dropout_p, is_causal, **options)
    if options.get("enable_gqa"):
        groups = query.shape[-3] // key.shape[-3]
        key, value = (_repeat_interleave(each, int(groups), -3) for each in (key, value))
    return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)


def _unknown_functions():
    """Functions of PyTorch 2.0 that its own exporter does not know, made of others: (place, name, function)."""
    from torch.onnx import symbolic_opset13, symbolic_opset14

    if _ATTENTION is not None and not hasattr(symbolic_opset14, "scaled_dot_product_attention"):
        yield F, "scaled_dot_product_attention", _attention
    if not hasattr(symbolic_opset13, "unflatten"):
        yield from ((place, "unflatten", _unflatten) for place in (torch, torch.Tensor) if hasattr(place, "unflatten"))


@contextlib.contextmanager
def _plainly():
    """Without the fused paths of attention for inference, which no export knows, and with functions that older
    exporters write as loops and sequences made of others."""
    mha = getattr(torch.backends, "mha", None)
    enabled = mha is not None and mha.get_fastpath_enabled()
    with contextlib.ExitStack() as patches:
        if mha is not None:
            mha.set_fastpath_enabled(False)
            patches.callback(mha.set_fastpath_enabled, enabled)
        for place in (torch, torch.Tensor):
            patches.enter_context(unittest.mock.patch.object(place, "chunk", _chunk))
            patches.enter_context(unittest.mock.patch.object(place, "repeat_interleave", _repeat_interleave))
        yield


@contextlib.contextmanager
def _with_their_gradients(module, is_clip=True):
    """With functions made of others that exporters write by operators with other gradients. `is_clip`: _clamped()'s."""
    functions = {**_OF_OTHER_GRADIENTS, "bilinear": _bilinear, "one_hot": _one_hot}
    functions.update({f"adaptive_max_pool{n}d": _global_max_pool(n) for n in (1, 2, 3)})
    if _ATTENTION is not None:
        functions["scaled_dot_product_attention"] = _masked_attention
    with _replaced(module, functions), contextlib.ExitStack() as patches:
        for place in (torch, torch.Tensor):
            made = {name: _extreme(getattr(place, name), sign) for name, sign in (("max", 1), ("min", -1))}
            made.update({name: _clamped(getattr(place, name), name, is_clip) for name in _CLAMPS if hasattr(place, name)})
            for name, function in made.items():
                patches.enter_context(unittest.mock.patch.object(place, name, function))
        yield


def _export_by_trace(module, inputs):
    """By TorchScript's tracer, each layer in its own mode, nothing computed beforehand."""
    export_function = getattr(torch.onnx.utils, "export", None)
    if export_function is None:
        raise ExportError("this PyTorch has no exporter that traces")
    from torch.onnx import symbolic_helper

    opsets = {}  # of our own operators, once one is used

    def embedding(g, weight, indices, padding_idx, scale_grad_by_freq, sparse):
        padding = symbolic_helper._maybe_get_const(padding_idx, "i")
        if padding < 0:
            return g.op("Gather", weight, indices)
        opsets[DOMAIN] = 1
        made = g.op(f"{DOMAIN}::Embedding", weight, indices, padding_idx_i=padding)
        sizes = symbolic_helper._get_tensor_sizes(indices)
        if sizes is not None and weight.isCompleteTensor():
            made.setType(weight.type().with_sizes(sizes + [symbolic_helper._get_tensor_dim_size(weight, 1)]))
        return made

    def detach(g, x):
        opsets[DOMAIN] = 1
        made = g.op(f"{DOMAIN}::Detach", x)
        made.setType(x.type())
        return made

    names = list(_outputs_of(_call(module, inputs)))
    copies = _copied(inputs)
    arguments = tuple(copies.values()) if _is_positional(module, inputs) else (copies,)
    file = io.BytesIO()
    symbolics = {"aten::embedding": embedding, "aten::detach": detach}
    for name, function in symbolics.items():
        torch.onnx.register_custom_op_symbolic(name, function, OPSETS[0])
    try:
        with _plainly(), _with_their_gradients(module), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.ExitStack() as patches:
            for place, name, function in _unknown_functions():
                patches.enter_context(unittest.mock.patch.object(place, name, function))
            # Of a module in eval() parameters that are equal, as fresh ones are, would become one.
            deduplicate = torch._C._jit_pass_onnx_deduplicate_initializers
            patches.enter_context(unittest.mock.patch.object(
                torch._C, "_jit_pass_onnx_deduplicate_initializers",
                lambda graph, parameters, _: deduplicate(graph, parameters, True)))
            # What it prints of a graph that it cannot export; verbose=False would switch that on.
            patches.enter_context(unittest.mock.patch.object(torch._C, "_jit_onnx_log", lambda *_: None))
            export_function(
                module, arguments, file, input_names=list(inputs), output_names=names, opset_version=OPSETS[0],
                dynamic_axes={name: {0: "batch"} for name in inputs}, training=torch.onnx.TrainingMode.PRESERVE,
                do_constant_folding=False, custom_opsets=opsets,
            )
    finally:
        for name in symbolics:
            torch.onnx.unregister_custom_op_symbolic(name, OPSETS[0])
    return onnx.load_from_string(file.getvalue())


def _export_by_program(module, inputs):
    """By torch.export, without its optimizer, which folds layers and merges parameters."""
    if "dynamo" not in inspect.signature(torch.onnx.export).parameters:
        raise ExportError("this PyTorch has no exporter that uses torch.export")
    batch = torch.export.Dim("batch", min=2)  # PyTorch 2.9 asks whether it is 1, and then refuses any other
    with _plainly(), _with_their_gradients(module, is_clip=False), contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            module, (), kwargs=_copied(inputs), dynamo=True, optimize=False, input_names=list(inputs),
            output_names=list(_outputs_of(_call(module, inputs))), opset_version=OPSETS[1],
            dynamic_shapes={name: {0: batch} for name in inputs}, verbose=False,
        )
    model = program.model_proto
    for node in model.graph.node:
        operation = next((each.value for each in node.metadata_props if each.key == "pkg.torch.onnx.fx_node"), "")
        if node.op_type == "Identity" and "target=torch.ops.aten.detach" in operation:
            node.op_type, node.domain = "Detach", DOMAIN
        arguments = operation.split("](args = (", 1)[-1].split(")", 1)[0].split(", ")
        if node.op_type == "BatchNormalization" and "batch_norm_legit_functional" in operation and arguments[5] == "True":
            _train_batch_norm(node, float(arguments[6]))
        if node.op_type == "Gather" and "target=torch.ops.aten.embedding.default" in operation:
            if len(arguments) > 2 and int(arguments[2]) >= 0:
                node.op_type, node.domain = "Embedding", DOMAIN
                del node.attribute[:]
                node.attribute.append(onnx.helper.make_attribute("padding_idx", int(arguments[2])))
    return model


def _train_batch_norm(node, momentum):
    """The exporter writes all BatchNorm as it is in eval()."""
    kept = [entry for entry in node.attribute if entry.name not in ("training_mode", "momentum")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(onnx.helper.make_attribute("training_mode", 1))
    node.attribute.append(onnx.helper.make_attribute("momentum", 1 - momentum))
    node.output.extend(f"{node.output[0]}_{each}" for each in ("mean", "variance")[len(node.output) - 1 :])


def _finish(model, module, before, output_names):
    """One name for each tensor, its value before the export, outputs' names, and no paths of this machine."""
    tensors = _all_tensors(module)
    _, first = _groups(tensors)
    _rename(model.graph, {name: other for name, other in first.items() if name != other})
    values = {name: before.get(name, before.get(first[name], tensor)) for name, tensor in tensors}
    there = {each.name for each in (*model.graph.initializer, *model.graph.input)}
    there.update(name for node in model.graph.node for name in node.output)
    for name in module.state_dict():  # what forward does not read, too
        if first.get(name) == name and name not in there:
            model.graph.initializer.append(onnx.TensorProto(name=name))
    for initializer in model.graph.initializer:
        if initializer.name in values:
            kept = numpy_helper.from_array(values[initializer.name].detach().cpu().numpy(), initializer.name)
            initializer.CopyFrom(kept)
    if output_names is not None:
        made = [output.name for output in model.graph.output]
        if len(made) != len(output_names):
            raise ExportError(f"forward gives back {len(made)} tensors, but there are {len(output_names)} names")
        _rename(model.graph, dict(zip(made, output_names)))
    for node in model.graph.node:
        node.doc_string = ""
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.initializer):
        if hasattr(part, "metadata_props"):
            del part.metadata_props[:]
    _add_functions(model)


def _rename(graph, names):
    for node in graph.node:
        for each in (node.input, node.output):
            each[:] = [names.get(name, name) for name in each]
    for part in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        part.name = names.get(part.name, part.name)


def _add_functions(model):
    """What Rookery's operators are to any other runtime."""
    helper, opset = onnx.helper, onnx.helper.make_opsetid("", OPSETS[0])
    bodies = {
        "Detach": (["x"], [], helper.make_node("Identity", ["x"], ["y"])),
        "Embedding": (["weight", "indices"], ["padding_idx"], helper.make_node("Gather", ["weight", "indices"], ["y"])),
    }
    used = {node.op_type for node in model.graph.node if node.domain == DOMAIN}
    for name in sorted(used):
        takes, attributes, body = bodies[name]
        model.functions.append(helper.make_function(DOMAIN, name, takes, ["y"], [body], [opset], attributes))
    if used and not any(entry.domain == DOMAIN for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    if not used:
        kept = [entry for entry in model.opset_import if entry.domain != DOMAIN]
        del model.opset_import[:]
        model.opset_import.extend(kept)


# ---------------------------------------------------------------------------------------------------------
# The comparison: the file run in PyTorch, forward and backward


def _without_dropout(module):
    """Both sides draw nothing."""
    keep = lambda input, *_, **__: input  # noqa: E731

    def attend(query, key, value, attn_mask=None, dropout_p=0.0, *rest, **options):
        return _ATTENTION(query, key, value, attn_mask, 0.0, *rest, **options)

    names = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
    return _replaced(module, {**dict.fromkeys(names, keep), "scaled_dot_product_attention": attend})


def _compare(model, module, inputs, statistics):
    """Outputs, gradients and the `statistics` that move for the example, for another number of samples, and for other
    parameters, since behind a layer of zeros nothing shows; adds the metadata, which needs to know which parameters
    have gradients."""
    no_gradient = set()
    inputs = _unlike(_varied_integers(module, {name: _varied(tensor) for name, tensor in inputs.items()}))
    samples = len(next(iter(inputs.values())))
    for count, sign, moves in ((samples + 1, 1, False), (samples, -1, False), (samples, 1, True), (samples, 1, False)):
        given = {name: _repeated(_turned(tensor, sign), count) for name, tensor in inputs.items()}
        with _unchanged(module), _without_dropout(module), _plainly():
            moved = _move_parameters(module) if moves else {}
            theirs, gradients = _run_module(module, given)
            theirs.update({name: each.clone() for name, each in module.named_buffers()
                           if name in statistics and not name.endswith("num_batches_tracked")})
        try:
            ours, own_gradients, missing = _run_file(model, module, given, moved)
        except (RuntimeError, IndexError, ValueError) as error:
            raise ExportError(f"with {count} samples the file fails ({str(error).splitlines()[0]}): {_LOST}") from error
        no_gradient.update(name for name, gradient in gradients.items() if gradient is None)
        if missing is not None:
            warnings.warn(f"the file was not compared with the module: {missing} is not known here", stacklevel=3)
            break
        for name, tensor in theirs.items():
            _check_close(f"output {name}" if isinstance(name, int) else name, ours.get(name), tensor, count)
        there = [each.abs().max() for each in gradients.values() if each is not None and each.numel()]
        rounding = ROUNDING * float(max(there, default=0))
        for name, gradient in gradients.items():
            if gradient is not None:
                _check_close(f"the gradient of {name}", own_gradients.get(name), gradient, count, rounding)
    names = {output.name for output in model.graph.output}
    if len(names) != len(model.graph.output):
        raise ExportError("forward gives back one tensor twice: return it once")
    described = json.dumps(_describe(module, no_gradient))
    model.metadata_props.append(onnx.StringStringEntryProto(key=METADATA_KEY, value=described))


_CANNOT_BE = (
    "what a tensor's values decide (if, for, .item(), int()), what is kept of the first call, numbers of samples as "
    "Python's, .data and torch.no_grad() inside of forward cannot be exported: use torch.where, masks, -1 in shapes, "
    ".detach() and requires_grad_(False)"
)
_LOST = f"the exporter lost something of forward; {_CANNOT_BE}"


def _noise(tensor):
    """From 0 to 1, the same in every call."""
    generator = torch.Generator().manual_seed(1)
    return torch.rand(tensor.shape, generator=generator, dtype=torch.float32).to(tensor.dtype)


def _varied(tensor):
    """Something else than zeros, with which everything is equal and nothing well-conditioned."""
    if not tensor.is_floating_point() or (tensor != tensor.flatten()[0]).any():
        return tensor
    return _noise(tensor) + tensor


def _varied_integers(module, inputs):
    """Ids that are all alike may all be padding, behind which nothing shows: every second one is another, where forward
    takes that."""
    alike = [name for name, tensor in inputs.items()
             if tensor.dtype in (torch.int32, torch.int64) and (tensor == tensor.flatten()[0]).all()]
    for name in alike:
        tensor = inputs[name]
        other = max(int(tensor.flatten()[0]), 1)
        made = {**inputs, name: (torch.arange(tensor.numel()) % 2 * other).to(tensor.dtype).reshape(tensor.shape)}
        with contextlib.suppress(RuntimeError, IndexError, ValueError, AssertionError):
            with _unchanged(module), torch.no_grad():
                _call(module, made)
            inputs = made
    return inputs


def _unlike(inputs):
    """Samples that differ, where they are one that was repeated: BatchNorm has no gradients where all are alike."""
    if any((tensor != tensor[:1]).any() for tensor in inputs.values()):
        return inputs
    made = {}
    for name, tensor in inputs.items():
        if tensor.is_floating_point():
            made[name] = tensor + 0.1 * tensor.nan_to_num(0, 0, 0).abs().max() * _noise(tensor)
        else:
            made[name] = torch.cat([tensor[:1], tensor[1:].flip(-1)]) if tensor.dim() > 1 else tensor
    return made


def _turned(tensor, sign):
    """Other values of the same kind: what is decided by values shows."""
    return tensor if sign == 1 else -tensor if tensor.is_floating_point() else tensor.flip(0)


def _tell_of_values(told):
    """Passes on what tracers say of the module's own lines, and what this file says."""
    for each in told:
        is_of_user = not _is_of_torch(each.filename) and each.filename != __file__
        is_trace = issubclass(each.category, torch.jit.TracerWarning) and is_of_user
        if is_trace or "was not compared" in str(each.message):
            where = f"{each.filename}:{each.lineno}: " if is_trace else ""
            warnings.warn(f"{where}{str(each.message).splitlines()[0]}", stacklevel=3)


def _are_close(ours, theirs, rounding):
    if not theirs.is_floating_point():
        return torch.equal(ours, theirs)
    largest = theirs.abs().nan_to_num(0, 0, 0).max() if theirs.numel() else 0
    return torch.allclose(ours, theirs, rtol=1e-3, atol=max(CLOSE * float(largest), rounding), equal_nan=True)


def _check_close(what, ours, theirs, samples, rounding=CLOSE):
    """`rounding`: differences that are no larger are taken for it."""
    if ours is None or ours.shape != theirs.shape or not _are_close(ours, theirs, rounding):
        apart = "is missing" if ours is None else (
            f"has the shape {list(ours.shape)}, not {list(theirs.shape)}" if ours.shape != theirs.shape
            else f"differs by {float((ours - theirs).abs().max()):.2g}"
        )
        raise ExportError(
            f"with {samples} samples {what} {apart}: {_LOST}"
        )


def _weigh(outputs):
    """A number that every element of every output has its own share in."""
    total = 0
    for tensor in outputs:
        if tensor.is_floating_point() and tensor.requires_grad:
            shares = torch.linspace(-1, 1, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)
            total = total + (tensor * shares.cos()).nan_to_num(0, 0, 0).sum()
    return total


def _run_module(module, inputs):
    """Outputs, and gradients of the parameters that are trained."""
    module.zero_grad(set_to_none=True)
    made = list(_outputs_of(_call(module, inputs)).values())
    total = _weigh(made)
    if isinstance(total, torch.Tensor):
        total.backward()
    _, first = _groups(_all_tensors(module))
    gradients = {
        first[name]: None if parameter.grad is None else parameter.grad.to_dense().clone()  # of Embedding(sparse=True)
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    return {i: tensor.detach() for i, tensor in enumerate(made)}, gradients


def _move_parameters(module):
    """Gives those that are trained other values; {name: value}."""
    generator = torch.Generator().manual_seed(2)
    _, first = _groups(_all_tensors(module))
    moved = {}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
                moved[first[name]] = parameter.detach().clone()
    return moved


def _run_file(model, module, inputs, moved):
    """The same of the file, with the values of `moved`; or the operator that is not known here."""
    trained = {name for name, parameter in _all_tensors(module) if parameter.requires_grad}
    known = {}
    for initializer in model.graph.initializer:
        tensor = moved.get(initializer.name)
        if tensor is None:
            tensor = torch.from_numpy(numpy_helper.to_array(initializer).copy())
        known[initializer.name] = tensor.requires_grad_(True) if initializer.name in trained else tensor
    weights = {name: known[name] for name in trained if name in known}
    known.update(inputs)
    try:
        _run_nodes(model.graph.node, known)
    except _UnknownOperator as unknown:
        return {}, {}, unknown
    made = [known[output.name] for output in model.graph.output]
    total = _weigh(made)
    if isinstance(total, torch.Tensor):
        total.backward()
    ours = {**_statistics_in(model.graph.node, known), **{i: tensor.detach() for i, tensor in enumerate(made)}}
    return ours, {n: w.grad for n, w in weights.items()}, None


def _statistics_in(nodes, known):
    """Those that were moved, by their names before."""
    norms = [node for node in nodes if node.op_type == "BatchNormalization"]
    return {node.input[at + 2]: known[node.output[at]] for node in norms for at in range(1, len(node.output))}


class _UnknownOperator(Exception):
    pass


def _run_nodes(nodes, known):
    for node in nodes:
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        attributes = {key: each.decode() if isinstance(each, bytes) else each for key, each in attributes.items()}
        inputs = [known[name] if name else None for name in node.input]
        if node.op_type == "If":
            branch = attributes["then_branch" if bool(inputs[0]) else "else_branch"]
            inner = dict(known)
            inner.update({each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in branch.initializer})
            _run_nodes(branch.node, inner)
            outputs = [inner[output.name] for output in branch.output]
        else:
            operator = _OPERATORS.get(node.op_type)
            if operator is None:
                raise _UnknownOperator(node.op_type)
            attributes["outputs"] = len(node.output)
            outputs = operator(attributes, *inputs)
            outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        known.update(zip(node.output, outputs))


def _numbers(a, key, given=None):
    value = a.get(key) if given is None else given
    return value if value is None else [int(number) for number in value]


_DTYPES = {1: torch.float32, 2: torch.uint8, 3: torch.int8, 6: torch.int32, 7: torch.int64, 9: torch.bool,
           10: torch.float16, 11: torch.float64, 16: torch.bfloat16}


def _constant(a):
    (value,) = (each for key, each in a.items() if key.startswith("value"))
    if isinstance(value, onnx.TensorProto):
        return torch.from_numpy(numpy_helper.to_array(value).copy())
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return torch.tensor(value, dtype=torch.float32 if isinstance(first, float) else torch.int64)


def _filled(a, shape):
    value = numpy_helper.to_array(a["value"]) if "value" in a else None
    one = torch.zeros(1) if value is None else torch.from_numpy(value.copy())
    return one.reshape(()).expand(shape.tolist()).clone()


def _pads(a, x, kernel):
    axes = len(kernel)
    begin, end = a.get("pads", [0] * 2 * axes)[:axes], a.get("pads", [0] * 2 * axes)[axes:]
    strides, dilations = a.get("strides", [1] * axes), a.get("dilations", [1] * axes)
    if a.get("auto_pad", "NOTSET").startswith("SAME"):
        begin, end = [], []
        for i, size in enumerate(x.shape[2:]):
            total = max(0, (-(-size // strides[i]) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size)
            begin.append(total // 2 if a["auto_pad"] == "SAME_UPPER" else total - total // 2)
            end.append(total - begin[-1])
    return begin, end


def _padded(x, begin, end, value=0.0):
    return F.pad(x, [pad for pair in zip(reversed(begin), reversed(end)) for pad in pair], value=value)


def _conv(a, x, w, bias=None):
    function = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    x = _padded(x, *_pads(a, x, w.shape[2:]))
    return function(x, w, bias, a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1))


def _conv_transpose(a, x, w, bias=None):
    axes = x.dim() - 2
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
    pads = a.get("pads", [0] * 2 * axes)[:axes]
    return function(x, w, bias, a.get("strides", 1), pads, a.get("output_padding", 0), a.get("group", 1),
                    a.get("dilations", 1))


def _pool(functions, fill):
    def run(a, x):
        kernel, function = a["kernel_shape"], functions[x.dim() - 3]
        begin, end = _pads(a, x, kernel)
        strides, ceil = a.get("strides", [1] * len(kernel)), bool(a.get("ceil_mode", 0))
        if fill is None:
            if begin != end:
                x, begin = _padded(x, begin, end), [0] * len(kernel)
            return function(x, kernel, strides, begin, ceil, bool(a.get("count_include_pad", 0)))
        if begin != end:
            x, begin = _padded(x, begin, end, fill), [0] * len(kernel)
        return function(x, kernel, strides, begin, a.get("dilations", 1), ceil)

    return run


def _batch_norm(a, x, scale, bias, mean, variance):
    mean, variance = mean.clone(), variance.clone()
    training = bool(a.get("training_mode", 0))
    y = F.batch_norm(x, mean, variance, scale, bias, training, 1 - a.get("momentum", 0.9), a.get("epsilon", 1e-5))
    return (y, mean, variance)


def _instance_norm(a, x, scale, bias):
    return F.instance_norm(x, weight=scale, bias=bias, eps=a.get("epsilon", 1e-5))


def _group_norm(a, x, scale, bias):
    groups = a["num_groups"]
    if len(scale) != x.shape[1]:
        scale, bias = (each.repeat_interleave(x.shape[1] // groups) for each in (scale, bias))
    return F.group_norm(x, groups, scale, bias, a.get("epsilon", 1e-5))


def _layer_norm(a, x, scale, bias=None):
    axis = a.get("axis", -1) % x.dim()
    return F.layer_norm(x, x.shape[axis:], scale, bias, a.get("epsilon", 1e-5))


def _gemm(a, x, w, c=None):
    product = (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w) * a.get("alpha", 1.0)
    return product if c is None else product + a.get("beta", 1.0) * c


def _gather(a, x, indices):
    axis = a.get("axis", 0) % x.dim()
    taken = x.index_select(axis, indices.flatten().long() % x.shape[axis])
    return taken.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def _reduce(function):
    def run(a, x, axes=None):
        axes = _numbers(a, "axes", axes)
        if not axes and a.get("noop_with_empty_axes", 0):
            return x
        return function(x, axes or list(range(x.dim())), keepdim=bool(a.get("keepdims", 1)))

    return run


def _reshape(a, x, shape):
    zero = bool(a.get("allowzero", 0))
    return x.reshape([x.shape[i] if dim == 0 and not zero else dim for i, dim in enumerate(shape.tolist())])


def _slice(a, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = _numbers(a, "starts", starts), _numbers(a, "ends", ends)
    axes, steps = _numbers(a, "axes", axes) or range(len(starts)), _numbers(a, "steps", steps) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        x = x.index_select(axis, torch.tensor(list(range(x.shape[axis]))[start:end:step], dtype=torch.int64))
    return x


def _split(a, x, sizes=None):
    axis, sizes, parts = a.get("axis", 0), _numbers(a, "split", sizes), a.get("num_outputs", a["outputs"])
    return x.split(-(-x.shape[axis] // parts) if sizes is None else sizes, axis)


def _squeeze(a, x, axes=None):
    axes = _numbers(a, "axes", axes)
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True) if axes else ():
        x = x.squeeze(axis)
    return x if axes else x.squeeze()


def _unsqueeze(a, x, axes=None):
    axes = _numbers(a, "axes", axes)
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _pad(a, x, pads=None, value=None, axes=None):
    pads, mode = _numbers(a, "pads", pads), a.get("mode", "constant")
    around = [(0, 0)] * x.dim()
    axes = range(x.dim()) if axes is None else axes.tolist()
    for axis, begin, end in zip(axes, pads[: len(pads) // 2], pads[len(pads) // 2 :]):
        around[axis] = (begin, end)
    if mode == "constant":
        return F.pad(x, [n for pair in reversed(around) for n in pair], value=0.0 if value is None else float(value))
    for axis, (begin, end) in enumerate(around):
        places, last = torch.arange(-begin, x.shape[axis] + end), x.shape[axis] - 1
        if mode == "reflect":
            places = torch.where(places > last, 2 * last - places, places.abs())
        x = x.index_select(axis, places.clamp(0, last) if mode != "wrap" else places % (last + 1))
    return x


def _resize(a, x, roi=None, scales=None, sizes=None):
    mode = a.get("mode", "nearest")
    options = {"nearest": {"mode": "nearest"}, "linear": {"mode": {3: "linear", 4: "bilinear"}.get(x.dim())}}[mode]
    if mode == "linear":
        options["align_corners"] = a.get("coordinate_transformation_mode") == "align_corners"
    if sizes is not None:
        return F.interpolate(x, size=sizes.tolist()[2:], **options)
    return F.interpolate(x, scale_factor=scales.tolist()[2:], recompute_scale_factor=False, **options)


def _trilu(a, x, k=None):
    plain = x.to(torch.uint8) if x.dtype == torch.bool else x
    return (plain.triu if a.get("upper", 1) else plain.tril)(int(k or 0)).to(x.dtype)


def _where(a, condition, x, y):
    return torch.where(condition, x, y)


def _div(a, x, y):
    return x / y if x.is_floating_point() else x.div(y, rounding_mode="trunc")


def _scatter_nd(a, x, indices, updates):
    y = x.clone()
    y[tuple(indices.unbind(-1))] = updates
    return y


def _recurrent(cell):
    """ONNX's LSTM, GRU and RNN, step by step: cell(a, p, h, c, r, b) gives the next h and c, where p is what comes of the
    input, and r and b are the weights and the bias of h."""

    def run(a, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
        if a.get("layout", 0) or a.get("clip") or lengths is not None or peepholes is not None:
            raise _UnknownOperator("a recurrent layer of such options")
        steps, ends = [], []
        for d in range(w.shape[0]):
            of_input, of_state = b[d].chunk(2) if b is not None else (0, 0)
            state = [torch.zeros(x.shape[1], a["hidden_size"]) if each is None else each[d] for each in (h, c)]
            made = [None] * len(x)
            is_reversed = d == 1 or a.get("direction") == "reverse"
            for t in reversed(range(len(x))) if is_reversed else range(len(x)):
                state = cell(a, x[t] @ w[d].t() + of_input, state[0], state[1], r[d], of_state)
                made[t] = state[0]
            steps.append(torch.stack(made))
            ends.append(state)
        return torch.stack(steps, 1), torch.stack([each[0] for each in ends]), torch.stack([each[1] for each in ends])

    return run


def _lstm_cell(a, p, h, c, r, b):
    i, o, f, g = (p + h @ r.t() + b).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _gru_cell(a, p, h, c, r, b):
    if not a.get("linear_before_reset"):
        raise _UnknownOperator("a GRU that resets before its product")
    (pz, pr, pn), (hz, hr, hn) = p.chunk(3, 1), (h @ r.t() + b).chunk(3, 1)
    z = torch.sigmoid(pz + hz)
    return (1 - z) * torch.tanh(pn + torch.sigmoid(pr + hr) * hn) + z * h, c


def _rnn_cell(a, p, h, c, r, b):
    activation = {b"Relu": torch.relu, b"Tanh": torch.tanh}[(a.get("activations") or [b"Tanh"])[0]]
    return activation(p + h @ r.t() + b), c


def _all_of(function):
    def run(a, *inputs):
        made = inputs[0]
        for each in inputs[1:]:
            made = function(made, each)
        return made

    return run


def _sqrt(x):
    """Whose gradient at 0 is 0, as Rookery has it."""
    return torch.where(x == 0, torch.ones_like(x), x).sqrt().masked_fill(x == 0, 0)


def _pow(a, x, y):
    if not x.is_floating_point():
        return x**y
    is_root_of_zero = (x == 0) & (y > 0) & (y < 1)
    return (torch.where(is_root_of_zero, torch.ones_like(x), x) ** y).masked_fill(is_root_of_zero, 0)


class _Softmax(torch.autograd.Function):
    """Whose gradient is 0 along a line of which nothing is made, even where that is NaN, as Rookery has it."""

    @staticmethod
    def forward(context, x, axis):
        y = x.softmax(axis)
        context.save_for_backward(y)
        context.axis = axis
        return y

    @staticmethod
    def backward(context, dy):
        (y,) = context.saved_tensors
        y = y.masked_fill((dy == 0).all(context.axis, keepdim=True), 0)
        return y * (dy - (dy * y).sum(context.axis, keepdim=True)), None


def _is_bad(a, x):
    return x.isnan() if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


def _logistic(function):
    return lambda a, x: function(x)


_OPERATORS = {
    "Constant": _constant, "ConstantOfShape": _filled, "Conv": _conv, "ConvTranspose": _conv_transpose,
    "MaxPool": _pool((F.max_pool1d, F.max_pool2d, F.max_pool3d), -float("inf")),
    "AveragePool": _pool((F.avg_pool1d, F.avg_pool2d, F.avg_pool3d), None),
    "GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), keepdim=True),
    "GlobalMaxPool": lambda a, x: x.amax(list(range(2, x.dim())), keepdim=True),
    "BatchNormalization": _batch_norm, "InstanceNormalization": _instance_norm, "GroupNormalization": _group_norm,
    "LayerNormalization": _layer_norm, "Gemm": _gemm, "MatMul": lambda a, x, y: x @ y,
    "Dropout": lambda a, x, *_: (x, torch.ones_like(x, dtype=torch.bool)),
    "Detach": lambda a, x: x.detach(), "Identity": lambda a, x: x,
    "Embedding": lambda a, w, i: F.embedding(i, w, padding_idx=a["padding_idx"]),
    "Gather": _gather, "GatherElements": lambda a, x, i: x.gather(a.get("axis", 0), i % x.shape[a.get("axis", 0)]),
    "GatherND": lambda a, x, i: x[tuple(i.unbind(-1))], "ScatterND": _scatter_nd,
    "CumSum": lambda a, x, axis: x.cumsum(int(axis)), "Einsum": lambda a, *x: torch.einsum(a["equation"], *x),
    "Softmax": lambda a, x: _Softmax.apply(x, a.get("axis", -1)),
    "LogSoftmax": lambda a, x: x.log_softmax(a.get("axis", -1)),
    "ReduceMean": _reduce(torch.mean), "ReduceSum": _reduce(torch.sum), "ReduceMax": _reduce(torch.amax),
    "ReduceMin": _reduce(torch.amin), "ReduceProd": lambda a, x: x.prod(),
    "ReduceL1": _reduce(lambda x, axes, keepdim: x.abs().sum(axes, keepdim=keepdim)),
    "ReduceL2": _reduce(lambda x, axes, keepdim: _sqrt(x.square().sum(axes, keepdim=keepdim))),
    "ArgMax": lambda a, x: x.argmax(a.get("axis", 0), keepdim=bool(a.get("keepdims", 1))),
    "Relu": _logistic(torch.relu), "Sigmoid": _logistic(torch.sigmoid), "Tanh": _logistic(torch.tanh),
    "Erf": _logistic(torch.erf), "Exp": _logistic(torch.exp), "Log": _logistic(torch.log),
    "Sqrt": _logistic(_sqrt), "Abs": _logistic(torch.abs), "Neg": _logistic(torch.neg), "Sin": _logistic(torch.sin),
    "Cos": _logistic(torch.cos), "Floor": _logistic(torch.floor), "Ceil": _logistic(torch.ceil),
    "Round": _logistic(torch.round), "Sign": _logistic(torch.sign), "Reciprocal": _logistic(torch.reciprocal),
    "Not": _logistic(torch.logical_not), "IsNaN": _is_bad, "Softplus": _logistic(F.softplus),
    "HardSwish": _logistic(F.hardswish), "Softsign": _logistic(F.softsign), "Mish": _logistic(F.mish),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)), "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "PRelu": lambda a, x, slope: torch.where(x > 0, x, slope * x),
    "Selu": lambda a, x: F.selu(x), "Celu": lambda a, x: F.celu(x, a.get("alpha", 1.0)),
    "HardSigmoid": lambda a, x: (a.get("alpha", 0.2) * x + a.get("beta", 0.5)).clamp(0, 1),
    "Clip": lambda a, x, low=None, high=None: x if low is high is None else x.clamp(low, high),
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y, "Div": _div,
    "Pow": _pow, "Mod": lambda a, x, y: torch.fmod(x, y) if a.get("fmod") else torch.remainder(x, y),
    "Sum": _all_of(torch.add), "Min": _all_of(torch.minimum), "Max": _all_of(torch.maximum),
    "Equal": lambda a, x, y: x == y, "Less": lambda a, x, y: x < y, "LessOrEqual": lambda a, x, y: x <= y,
    "Greater": lambda a, x, y: x > y, "GreaterOrEqual": lambda a, x, y: x >= y,
    "And": lambda a, x, y: x & y, "Or": lambda a, x, y: x | y, "Xor": lambda a, x, y: x ^ y, "Where": _where,
    "Cast": lambda a, x: x.to(_DTYPES[a["to"]]), "CastLike": lambda a, x, y: x.to(y.dtype),
    "Shape": lambda a, x: torch.tensor(list(x.shape)[a.get("start", 0) : a.get("end")], dtype=torch.int64),
    "Size": lambda a, x: torch.tensor(x.numel()), "Range": lambda a, x, y, z: torch.arange(x.item(), y.item(), z.item()),
    "Reshape": _reshape, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Slice": _slice, "Split": _split, "Pad": _pad,
    "Flatten": lambda a, x: x.reshape(x.shape[: a.get("axis", 1) % (x.dim() + 1)].numel(), -1),
    "Transpose": lambda a, x: x.permute(a.get("perm", list(reversed(range(x.dim()))))),
    "Expand": lambda a, x, shape: x.broadcast_to(torch.broadcast_shapes(x.shape, shape.tolist())),
    "Tile": lambda a, x, repeats: x.tile(repeats.tolist()), "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "LSTM": _recurrent(_lstm_cell), "GRU": _recurrent(_gru_cell), "RNN": _recurrent(_rnn_cell),
    "Resize": _resize, "Trilu": _trilu,
    "SplitToSequence": lambda a, x, sizes=None: [x.split(int(sizes) if sizes.dim() == 0 else sizes.tolist(), a["axis"])],
    "SequenceAt": lambda a, sequence, at: sequence[int(at)],
    "DepthToSpace": lambda a, x: F.pixel_shuffle(x, a["blocksize"]),
}


# ---------------------------------------------------------------------------------------------------------
# What went wrong, and where


def _explained(module, inputs, error):
    """The exporter's error with the layer, the line of its forward and a way around it."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    text = str(first).strip() or type(first).__name__
    operator = re.search(r"aten(?:::|\.)(\w+)", text)
    where = _place_of(module, inputs, operator.group(1)) if operator else _place_in(error)
    way = (
        f"write it with other functions of torch, or as a layer that ONNX has ({operator.group()})" if operator
        else _CANNOT_BE
    )
    return ExportError(f"{text.splitlines()[0]}{where}; {way}")


def _place_in(error):
    """The last line of a forward in the error's own trace."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_of_torch(f.filename)]
    frames = [f for f in frames if f.filename != __file__]
    return f"\n  at {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def _is_of_torch(filename):
    return str(pathlib.Path(torch.__file__).parent) in filename


def _is_machinery(filename):
    """What lies between the line that calls an operator and the one who watches."""
    between = ("_python_dispatch.py", "_compile.py", "eval_frame.py", "_tensor.py")
    return filename == __file__ or (_is_of_torch(filename) and pathlib.Path(filename).name in between)


def _place_of(module, inputs, operator, of_user=False):
    """The layer and the line that call an operator of PyTorch; `of_user`: only where that is no line of PyTorch's own.
    Empty where there is none."""
    from torch.utils._python_dispatch import TorchDispatchMode

    stack, found = [], []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if not found and str(function).split(".")[1:2] == [operator]:
                frames = [f for f in traceback.extract_stack() if not _is_machinery(f.filename)]
                lines = [f for f in frames if not _is_of_torch(f.filename)]
                if of_user and _is_of_torch(frames[-1].filename):
                    return function(*args, **(kwargs or {}))
                layer = next((name for name in reversed(stack) if name), "")
                line = f" at {lines[-1].filename}:{lines[-1].lineno}: {lines[-1].line}" if lines else ""
                found.append(f"\n  in {layer or 'the module itself'}{line}")
            return function(*args, **(kwargs or {}))

    hooks = []
    for name, layer in module.named_modules():
        hooks.append(layer.register_forward_pre_hook(lambda *_, name=name: stack.append(name)))
        hooks.append(layer.register_forward_hook(lambda *_: stack.pop() and None))
    try:
        with Watch(), torch.no_grad():
            _call(module, inputs)
    except Exception:  # noqa: S110 - the place is told if it can be found
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else ""


def _joined(outcomes):
    errors = list(dict.fromkeys(str(error) for _, error in outcomes if not str(error).startswith("this PyTorch has no")))
    return errors[0] if len(errors) == 1 else "; and by the other exporter: ".join(errors)


# ---------------------------------------------------------------------------------------------------------
# Data


def _collected(dataset):
    """All items of a Dataset, stacked."""
    items = [dataset[i] for i in range(len(dataset))]
    if not items:
        raise ExportError("the data set is empty")
    if isinstance(items[0], dict):
        return {name: torch.stack([torch.as_tensor(item[name]) for item in items]) for name in items[0]}
    if not isinstance(items[0], (tuple, list)):
        items = [(item,) for item in items]
    return tuple(torch.stack([torch.as_tensor(item[i]) for item in items]) for i in range(len(items[0])))


_NAMES_OF_TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32",
                   torch.uint8: "U8", torch.bool: "BOOL"}


def _write_safetensors(path, tensors):
    """https://github.com/huggingface/safetensors; what Rookery does not know becomes float32 or int64."""
    header, chunks, offset = {}, [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES_OF_TYPES:
            tensor = tensor.float() if tensor.is_floating_point() else tensor.long()
        data = tensor.detach().cpu().contiguous().numpy().tobytes()
        end = offset + len(data)
        header[name] = {"dtype": _NAMES_OF_TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        chunks.append(data)
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with tempfile.NamedTemporaryFile(dir=pathlib.Path(path).resolve().parent, delete=False) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for chunk in chunks:
            file.write(chunk)
    pathlib.Path(file.name).replace(path)
