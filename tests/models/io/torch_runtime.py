"""Rookery's operators as PyTorch's functions, and an ONNX runtime of them for Pythons that have neither
onnxruntime nor onnx.reference. Follows https://onnx.ai/onnx/operators/, opset 17.
"""

import functools

import torch
import torch.nn.functional as F


def setting(a, key, given):
    """What is an input in ONNX and an attribute in our graphs."""
    return a.get(key) if given is None else given


def integers(a, key, given=None):
    """The same of a list of integers, as such."""
    value = setting(a, key, given)
    return value if value is None else [int(number) for number in value]


def padding_of(a, x, kernel):
    """(begin, end) of a sliding window along all axes from the third on."""
    axes = len(kernel)
    strides, dilations = a.get("strides", [1] * axes), a.get("dilations", [1] * axes)
    auto_pad = a.get("auto_pad", "NOTSET")
    begin, end = a.get("pads", [0] * 2 * axes)[:axes], a.get("pads", [0] * 2 * axes)[axes:]
    if isinstance(auto_pad, bytes):
        auto_pad = auto_pad.decode()
    if auto_pad != "NOTSET":
        begin, end = [0] * axes, [0] * axes
    if auto_pad.startswith("SAME"):
        for i, size in enumerate(x.shape[2:]):
            extent = (kernel[i] - 1) * dilations[i] + 1
            total = max(0, ((size - 1) // strides[i]) * strides[i] + extent - size)
            begin[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            end[i] = total - begin[i]
    return begin, end


def padded(x, begin, end, value=0.0):
    around = [pad for pair in zip(reversed(begin), reversed(end)) for pad in pair]
    return F.pad(x, around, value=value)


def by_rank(x, *functions):
    """The function for one-dimensional images, for two-dimensional ones."""
    return functions[x.dim() - 3]


def conv(a, x, w, bias=None):
    x = padded(x, *padding_of(a, x, w.shape[2:]))
    function = by_rank(x, F.conv1d, F.conv2d)
    return function(x, w, bias, a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1))


def conv_transpose(a, x, w, bias=None):
    axes = x.dim() - 2
    strides, dilations = a.get("strides", [1] * axes), a.get("dilations", [1] * axes)
    extra, group = a.get("output_padding", [0] * axes), a.get("group", 1)
    begin, end = a.get("pads", [0] * 2 * axes)[:axes], a.get("pads", [0] * 2 * axes)[axes:]
    auto_pad = a.get("auto_pad", "NOTSET")
    auto_pad = auto_pad.decode() if isinstance(auto_pad, bytes) else auto_pad
    function = by_rank(x, F.conv_transpose1d, F.conv_transpose2d)
    if auto_pad == "NOTSET" and "output_shape" not in a and begin == end:
        return function(x, w, bias, strides, begin, extra, group, dilations)
    # All that windows reach, and more where the output has more; of that the part which is wanted.
    behind, parts = [], [slice(None), slice(None)]
    for i, size in enumerate(x.shape[2:]):
        reach = strides[i] * (size - 1) + (w.shape[i + 2] - 1) * dilations[i] + 1
        first, last = (begin[i], end[i]) if auto_pad == "NOTSET" else (0, 0)
        if "output_shape" in a or auto_pad.startswith("SAME"):
            wanted = a["output_shape"][i] if "output_shape" in a else size * strides[i]
            total = max(0, reach + extra[i] - wanted)
            first = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        else:
            wanted = reach + extra[i] - first - last
        behind.append(max(0, first + wanted - reach))
        parts.append(slice(first, first + wanted))
    return function(x, w, bias, strides, 0, behind, group, dilations)[tuple(parts)]


def overhang(a, x, kernel, begin, end):
    """How far the last windows of ceil_mode reach beyond the padding."""
    axes = len(kernel)
    strides, dilations = a.get("strides", [1] * axes), a.get("dilations", [1] * axes)
    reach = [0] * axes
    if not a.get("ceil_mode") or a.get("auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET"):
        return reach
    for i, size in enumerate(x.shape[2:]):
        extent = (kernel[i] - 1) * dilations[i] + 1
        room = size + begin[i] + end[i] - extent
        last = -(-room // strides[i]) * strides[i]
        if last < size + begin[i]:
            reach[i] = max(0, last - room)
    return reach


def is_plain(a, begin, end, kernel):
    """Is it a pooling that PyTorch has itself?"""
    fits = all(2 * pad <= size for pad, size in zip(begin, kernel))
    return begin == end and fits and a.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET")


def max_pool(a, x):
    kernel = a["kernel_shape"]
    begin, end = padding_of(a, x, kernel)
    function = by_rank(x, F.max_pool1d, F.max_pool2d)
    strides, dilations = a.get("strides", [1] * len(kernel)), a.get("dilations", 1)
    if is_plain(a, begin, end, kernel):
        return function(x, kernel, strides, begin, dilations, bool(a.get("ceil_mode")))
    end = [pad + more for pad, more in zip(end, overhang(a, x, kernel, begin, end))]
    return function(padded(x, begin, end, -float("inf")), kernel, strides, 0, dilations)


def average_pool(a, x):
    kernel = a["kernel_shape"]
    begin, end = padding_of(a, x, kernel)
    function = by_rank(x, F.avg_pool1d, F.avg_pool2d)
    strides, include = a.get("strides", [1] * len(kernel)), bool(a.get("count_include_pad"))
    if is_plain(a, begin, end, kernel):
        return function(x, kernel, strides, begin, bool(a.get("ceil_mode")), include)
    counted = padded(torch.ones_like(x), begin, end, float(include))
    nothing, behind = [0] * len(kernel), overhang(a, x, kernel, begin, end)
    shares = function(padded(counted, nothing, behind), kernel, strides)
    return function(padded(padded(x, begin, end), nothing, behind), kernel, strides) / shares


def batch_norm(a, x, scale, bias, mean, variance):
    """Training as in PyTorch: the running variance gets the unbiased one."""
    training = bool(a.get("training_mode", 0))
    mean, variance = mean.clone(), variance.clone()
    y = F.batch_norm(x, mean, variance, scale, bias, training, 1 - a.get("momentum", 0.9), a.get("epsilon", 1e-5))
    return (y, mean, variance) if training else y


def layer_norm(a, x, scale, bias=None):
    axis = a.get("axis", -1)
    return F.layer_norm(x, x.shape[axis if axis < 0 else axis - x.dim() :], scale, bias, a.get("epsilon", 1e-5))


def group_norm(a, x, scale, bias):
    return F.group_norm(x, a.get("num_groups", x.shape[1]), scale, bias, a.get("epsilon", 1e-5))


def attention(a, q, k, v, mask=None):
    """What sees nothing is zero."""
    if k is None:
        q, k, v = q.chunk(3, -1)
    merged = q.dim() == 3
    if merged:
        q, k, v = (x.unflatten(-1, (a["num_heads"], -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) * a.get("scale", q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, -float("inf")) if mask.dtype == torch.bool else scores + mask
    if a.get("is_causal", 0):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -float("inf"))
    blind = (scores == -float("inf")).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    y = weights @ v
    return y.transpose(1, 2).flatten(2) if merged else y


def recurrent_order(a, gates, of_state, order):
    """Blocks of rows by letter, of the product with x, and of that with h."""
    letters = word(a, "gates", order)
    return dict(zip(letters, gates.chunk(len(letters), -1))), dict(zip(letters, of_state.chunk(len(letters), -1)))


def recurrent(step):
    """A layer in one direction; step() gives back the states after those that it gets."""

    def run(a, x, w, r, bias=None, state_bias=None, *initial):
        zeros = torch.zeros(x.shape[1], r.shape[1], dtype=x.dtype)
        states = [zeros if state is None else state for state in (*initial, None, None)[:2]]
        times = list(range(x.shape[0]))
        y = [None] * len(times)
        for time in reversed(times) if word(a, "direction", "forward") == "reverse" else times:
            products = F.linear(x[time], w, bias)
            states = step(a, products, states, r, state_bias)
            y[time] = states[0]
        return [torch.stack(y), *states]

    return run


def lstm_step(a, products, states, r, bias):
    of_x, of_h = recurrent_order(a, products, F.linear(states[0], r, bias), "iofc")
    sums = {gate: of_x[gate] + of_h[gate] for gate in of_x}
    c = sums["f"].sigmoid() * states[1] + sums["i"].sigmoid() * sums["c"].tanh()
    return [sums["o"].sigmoid() * c.tanh(), c]


def gru_step(a, products, states, r, bias):
    h = states[0]
    of_x, of_h = recurrent_order(a, products, F.linear(h, r, bias), "zrh")
    z, reset = (of_x["z"] + of_h["z"]).sigmoid(), (of_x["r"] + of_h["r"]).sigmoid()
    if a.get("linear_before_reset", 0):
        n = (of_x["h"] + reset * of_h["h"]).tanh()
    else:
        at = word(a, "gates", "zrh").index("h")
        n = (of_x["h"] + F.linear(reset * h, r.chunk(3)[at], None if bias is None else bias.chunk(3)[at])).tanh()
    return [(1 - z) * n + z * h]


def rnn_step(a, products, states, r, bias):
    total = products + F.linear(states[0], r, bias)
    return [total.relu() if word(a, "function", "Tanh") == "Relu" else total.tanh()]


def reduction(function):
    def run(a, x):
        axes = a.get("axes") or list(range(x.dim()))
        if not axes:
            return function(x.reshape(1), [0], keepdim=False)
        return function(x, axes, keepdim=bool(a.get("keepdims", 1)))

    return run


def clip(a, x, low=None, high=None):
    low, high = setting(a, "min", low), setting(a, "max", high)
    return x if low is high is None else x.clamp(low, high)


def flatten(a, x):
    axis = a.get("axis", 1)
    rows = x.shape[: axis if axis >= 0 else axis + x.dim()].numel()
    return x.reshape(rows, x.numel() // rows)


def hard_sigmoid(a, x):
    """Like F.hardsigmoid, which has one slope alone, without a gradient at the kinks; clamp has one there."""
    y = a.get("alpha", 0.2) * x + a.get("beta", 0.5)
    return torch.where(y <= 0, torch.zeros_like(y), torch.where(y >= 1, torch.ones_like(y), y))


def mse_loss(a, prediction, target, ids=None):
    if target.dtype == torch.int64:
        target = F.one_hot(target, prediction.shape[1]).to(prediction.dtype)
    return F.mse_loss(prediction, target)


def bce_with_logits_loss(a, logits, target, ids=None):
    weight = torch.tensor(a["pos_weight"], dtype=logits.dtype) if "pos_weight" in a else None
    return F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight)


def cross_entropy_loss(a, logits, target, ids=None):
    axis = a.get("class_axis", -1)
    if target.dtype != torch.int64:
        target = target.movedim(axis, 1)
    # PyTorch has the classes along dimension 1.
    return F.cross_entropy(logits.movedim(axis, 1), target, label_smoothing=a.get("label_smoothing", 0.0))


def gemm(a, x, w, c=None):
    product = (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w) * a.get("alpha", 1.0)
    return product if c is None else product + a.get("beta", 1.0) * c


def reshape(a, x, shape=None):
    return x.reshape([x.shape[i] if dim == 0 else dim for i, dim in enumerate(integers(a, "shape", shape))])


def squeeze(a, x, axes=None):
    for axis in sorted((axis % x.dim() for axis in integers(a, "axes", axes)), reverse=True):
        x = x.squeeze(axis)
    return x


def unsqueeze(a, x, axes=None):
    axes = integers(a, "axes", axes)
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def expand(a, x, shape=None):
    return x.broadcast_to(torch.broadcast_shapes(x.shape, integers(a, "shape", shape)))


def split(a, x, sizes=None):
    axis, sizes = a.get("axis", 0), integers(a, "split", sizes)
    return x.split(x.shape[axis] // a.get("outputs", 2) if sizes is None else sizes, axis)


def slice_(a, x, starts=None, ends=None, axes=None, steps=None):
    """Python's slices follow the same rules."""
    starts, ends = integers(a, "starts", starts), integers(a, "ends", ends)
    axes, steps = integers(a, "axes", axes), integers(a, "steps", steps)
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = i if axes is None else axes[i]
        places = list(range(x.shape[axis]))[start : end : 1 if steps is None else steps[i]]
        x = x.index_select(axis, torch.tensor(places, dtype=torch.int64))
    return x


def pad(a, x, pads=None, value=None):
    pads, mode = integers(a, "pads", pads), a.get("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    value = setting(a, "constant_value", value)
    around = list(zip(pads[: x.dim()], pads[x.dim() :]))
    if mode == "constant":
        flat = [number for pair in reversed(around) for number in pair]
        return F.pad(x, flat, value=float(value or 0)) if x.dim() > 0 else x
    for axis, (begin, end) in enumerate(around):
        places = torch.arange(-begin, x.shape[axis] + end)
        last = x.shape[axis] - 1
        if mode == "reflect":
            places = torch.where(places > last, 2 * last - places, places.abs())
        x = x.index_select(axis, places.clamp(0, last))
    return x


def gather(a, x, indices):
    axis = a.get("axis", 0) % x.dim()
    taken = x.index_select(axis, indices.flatten() % x.shape[axis])
    return taken.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def gather_elements(a, x, indices):
    axis = a.get("axis", 0)
    return x.gather(axis, indices.long() % x.shape[axis])


def gather_nd(a, x, indices):
    batch, left = a.get("batch_dims", 0), x.shape[a.get("batch_dims", 0) + indices.shape[-1] :]
    rows = x.reshape(-1, *x.shape[batch:])
    points = indices.reshape(rows.shape[0], -1, indices.shape[-1]).long()
    taken = torch.stack([row[tuple(point.T)] for row, point in zip(rows, points)])
    return taken.reshape(indices.shape[:-1] + left)


def scatter_nd(a, x, indices, updates):
    points = tuple(indices.long().unbind(-1))
    return x.index_put(points, updates, accumulate=word(a, "reduction", "none") == "add")


def cumulative_sum(a, x, axis=None):
    axis = int(setting(a, "axis", axis))
    flipped = x.flip(axis) if a.get("reverse", 0) else x
    y = flipped.cumsum(axis, dtype=x.dtype)
    y = y - flipped if a.get("exclusive", 0) else y
    return y.flip(axis) if a.get("reverse", 0) else y


# By our names, real numbers in double precision; and by ONNX's numbers.
DTYPES = {"f32": torch.float64, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32}
DTYPES |= {"u8": torch.uint8, "bool": torch.bool, 1: torch.float32, 2: torch.uint8, 6: torch.int32}
DTYPES |= {7: torch.int64, 9: torch.bool, 11: torch.float64}


def trilu(a, x, k=None):
    k = setting(a, "k", k)
    # PyTorch 1.13 has no triu of bools.
    plain = x.to(torch.uint8) if x.dtype == torch.bool else x
    return (plain.triu if a.get("upper", 1) else plain.tril)(int(k or 0)).to(x.dtype)


def word(a, key, otherwise):
    value = a.get(key, otherwise)
    return value.decode() if isinstance(value, bytes) else value


def resize_weights(a, size, scale):
    """The matrix [to, from] of one axis, by ONNX's definitions."""
    to = int(size * scale + 1e-6)
    at = torch.arange(to, dtype=torch.float64)
    mode = word(a, "coordinate_transformation_mode", "half_pixel")
    if mode == "align_corners":
        at = at * (size - 1) / (to - 1) if to > 1 else at
    elif mode == "asymmetric":
        at = at / scale
    elif mode == "half_pixel" or to > 1:
        at = (at + 0.5) / scale - 0.5
    if word(a, "mode", "nearest") == "linear":
        at = at.clamp(0, size - 1)
        return (1 - (at[:, None] - torch.arange(size)).abs()).clamp(min=0)
    rounding = word(a, "nearest_mode", "round_prefer_floor")
    at = {
        "round_prefer_floor": lambda: (at - 0.5).ceil(),
        "round_prefer_ceil": lambda: (at + 0.5).floor(),
        "floor": lambda: at.floor(),
        "ceil": lambda: at.ceil(),
    }[rounding]()
    return F.one_hot(at.clamp(0, size - 1).long(), size).double()


def resize(a, x, roi=None, scales=None):
    scales = [float(scale) for scale in setting(a, "scales", scales)]
    y = x @ resize_weights(a, x.shape[-1], scales[-1]).T.to(x.dtype)
    if x.dim() == 4:
        y = resize_weights(a, x.shape[2], scales[2]).to(x.dtype) @ y
    check_interpolate(a, x, scales, y)
    return y


def check_interpolate(a, x, scales, y):
    """What PyTorch has a function for is the same."""
    ways = (word(a, "mode", "nearest"), word(a, "coordinate_transformation_mode", "half_pixel"))
    options = {"recompute_scale_factor": False}
    if ways == ("nearest", "asymmetric") and word(a, "nearest_mode", "") == "floor":
        options["mode"] = "nearest"
    elif ways[0] == "linear" and ways[1] in ("half_pixel", "align_corners"):
        options |= {"mode": "linear" if x.dim() == 3 else "bilinear", "align_corners": ways[1] == "align_corners"}
    else:
        return
    expected = F.interpolate(x, scale_factor=scales[2:], **options)
    assert torch.allclose(y, expected, atol=1e-5), "resize differs from torch.nn.functional.interpolate"


# Attributes first, then the inputs.
OPERATORS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), keepdim=True),
    "BatchNormalization": batch_norm,
    "Gemm": gemm,
    "Attention": attention,
    "LogSoftmax": lambda a, x: x.log_softmax(a.get("axis", -1)),
    "LSTM": recurrent(lstm_step),
    "GRU": recurrent(gru_step),
    "RNN": recurrent(rnn_step),
    "ReduceL1": reduction(lambda x, axes, keepdim: torch.linalg.vector_norm(x, 1, axes, keepdim)),
    "ReduceL2": reduction(lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim)),
    "ReduceMax": reduction(torch.amax),
    "ReduceMean": reduction(torch.mean),
    "ReduceSum": reduction(torch.sum),
    "MatMul": lambda a, x, y: x @ y,
    "LayerNormalization": layer_norm,
    "GroupNormalization": group_norm,
    "InstanceNormalization": group_norm,
    "Dropout": lambda a, x, *ratio: x,
    "Flatten": flatten,
    "Identity": lambda a, x: x,
    "Softmax": lambda a, x: x.softmax(a.get("axis", -1)),
    "Relu": lambda a, x: x.relu(),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "PRelu": lambda a, x, slope: torch.where(x < 0, slope * x, x),
    "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda a, x: F.hardswish(x),
    "Clip": clip,
    "Selu": lambda a, x: a.get("gamma", 1.05070102) * F.elu(x, a.get("alpha", 1.67326319)),
    "Softplus": lambda a, x: F.softplus(x),
    "Sin": lambda a, x: x.sin(),
    "Cos": lambda a, x: x.cos(),
    "Sigmoid": lambda a, x: x.sigmoid(),
    "Tanh": lambda a, x: x.tanh(),
    "Erf": lambda a, x: x.erf(),
    "Exp": lambda a, x: x.exp(),
    "Log": lambda a, x: x.log(),
    "Sqrt": lambda a, x: x.sqrt(),
    "Abs": lambda a, x: x.abs(),
    "Neg": lambda a, x: -x,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y if x.is_floating_point() else x.div(y, rounding_mode="trunc"),
    "Pow": lambda a, x, y: x**y,
    "Reshape": reshape,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": lambda a, x: x.permute(a.get("perm", list(reversed(range(x.dim()))))),
    "Expand": expand,
    "Tile": lambda a, x, repeats=None: x.tile(integers(a, "repeats", repeats)),
    "Concat": lambda a, *parts: torch.cat(parts, a["axis"]),
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "Trilu": trilu,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterND": scatter_nd,
    "CumSum": cumulative_sum,
    "Equal": lambda a, x, y: x == y,
    "Less": lambda a, x, y: x < y,
    "LessOrEqual": lambda a, x, y: x <= y,
    "Greater": lambda a, x, y: x > y,
    "GreaterOrEqual": lambda a, x, y: x >= y,
    "And": lambda a, x, y: x & y,
    "Or": lambda a, x, y: x | y,
    "Not": lambda a, x: ~x,
    "Where": lambda a, condition, x, y: torch.where(condition, x, y),
    "Min": lambda a, *x: functools.reduce(torch.minimum, x),
    "Max": lambda a, *x: functools.reduce(torch.maximum, x),
    "Cast": lambda a, x: x.to(DTYPES[a["to"]]),
    "Resize": resize,
    "MseLoss": mse_loss,
    "L1Loss": lambda a, prediction, target, ids=None: F.l1_loss(prediction, target),
    "MeanLoss": lambda a, prediction, target, ids=None: prediction.mean(),
    "BceWithLogitsLoss": bce_with_logits_loss,
    "CrossEntropyLoss": cross_entropy_loss,
}


def constant(a):
    value = next(iter(a.values()))
    return torch.tensor(value, dtype=torch.float32 if isinstance(value, float) else torch.int64)


def standard_recurrent(step):
    """ONNX's node, in one direction."""

    def run(a, x, w, r, bias=None, lengths=None, *initial):
        functions = [function.decode() for function in a.get("activations", [])]
        a = a | {"function": functions[0]} if functions else a
        biases = (None, None) if bias is None else bias[0].chunk(2)
        y, *last = recurrent(step)(a, x, w[0], r[0], *biases, *(state[0] for state in initial))
        return [y.unsqueeze(1), *(state.unsqueeze(0) for state in last)]

    return run


# What the bodies of functions are made of besides: shapes are inputs there.
IN_FUNCTIONS = {
    "Cast": lambda a, x: x.bool() if a["to"] == 9 else x.float(),
    "Constant": constant,
    "ConstantOfShape": lambda a, shape: torch.zeros(shape.tolist()),
    "Shape": lambda a, x: torch.tensor(x.shape),
    "Slice": lambda a, x, starts, ends: x[starts.item() : ends.item()],
    "GRU": standard_recurrent(gru_step),
    "LSTM": standard_recurrent(lstm_step),
    "RNN": standard_recurrent(rnn_step),
    "Split": lambda a, x: x.chunk(a["outputs"], a["axis"]),
    "Squeeze": lambda a, x, axes: x.squeeze(axes.item()),
    "Trilu": lambda a, x: x.tril() if a["upper"] == 0 else x.triu(),
    "Unsqueeze": lambda a, x, axes: x.unsqueeze(axes.item()),
}


def attributes_of(node, call):
    """Those of a node; in a function some are those of its call."""
    import onnx

    return {
        entry.name: call[entry.ref_attr_name] if entry.ref_attr_name else onnx.helper.get_attribute_value(entry)
        for entry in node.attribute
    }


def evaluate(nodes, known, functions, call=None):
    """Adds the outputs of the nodes to the values that are known."""
    for node in nodes:
        attributes = attributes_of(node, call)
        inputs = [known[name] if name else None for name in node.input]
        if node.domain:
            function = functions[node.domain, node.op_type]
            inner = dict(zip(function.input, inputs))
            evaluate(function.node, inner, functions, attributes)
            outputs = [inner[name] for name in function.output]
        else:
            if node.op_type == "Split":
                attributes["outputs"] = len(node.output)
            operator = (IN_FUNCTIONS if call is not None else {}).get(node.op_type) or OPERATORS[node.op_type]
            outputs = operator(attributes, *inputs)
            outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        known.update(zip(node.output, outputs))


def run(path, values):
    """The outputs of the ONNX model at `path`, by name."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    graph = model.graph
    known = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    known.update({value.name: torch.tensor(values[value.name]) for value in graph.input})
    evaluate(graph.node, known, {(function.domain, function.name): function for function in model.functions})
    return {output.name: known[output.name].numpy() for output in graph.output}
