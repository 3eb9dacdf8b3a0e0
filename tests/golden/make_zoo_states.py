#!/usr/bin/env python3
"""Makes zoo_states.txt.gz: names and shapes of the state dicts of the zoo's models in torchvision, Hugging
Face transformers and Keras, a line each:

    MODEL NAME DIMENSION...     a parameter or buffer
    MODEL NAME = OTHER          a tied one, which is the same tensor as OTHER

Needs PyTorch, torchvision, transformers and Keras 3, none of them as part of Debian:

    python3 -m venv venv && venv/bin/pip install torch torchvision transformers keras
    venv/bin/python tests/golden/make_zoo_states.py
"""

import gzip
import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"

import keras  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

PATH = pathlib.Path(__file__).resolve().parent / "zoo_states.txt.gz"


def small_xception(image_size=180, classes=2):
    """The model of https://keras.io/examples/vision/image_classification_from_scratch/."""
    layers = keras.layers
    keras.utils.clear_session()
    inputs = keras.Input((image_size, image_size, 3))

    def separable(x, channels):
        return layers.BatchNormalization()(layers.SeparableConv2D(channels, 3, padding="same")(x))

    x = layers.Conv2D(128, 3, strides=2, padding="same")(inputs)
    x = before = layers.Activation("relu")(layers.BatchNormalization()(x))
    for channels in (256, 512, 728):
        x = separable(layers.Activation("relu")(x), channels)
        x = separable(layers.Activation("relu")(x), channels)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        x = before = layers.add([x, layers.Conv2D(channels, 1, strides=2, padding="same")(before)])
    x = layers.Activation("relu")(separable(x, 1024))
    x = layers.Dropout(0.25)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(1 if classes == 2 else classes)(x))


KERAS_NAMES = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "kernel": "weight",
    "bias": "bias",
    "depthwise_kernel": "depthwise.weight",
    "pointwise_kernel": "pointwise.weight",
}


def keras_state(model):
    """Keras' weights under PyTorch's names, in PyTorch's layout."""
    state = {}
    for layer in model.layers:
        for weight in layer.weights:
            value = weight.value.detach().cpu()
            kind = weight.name
            name = f"{layer.name}.{KERAS_NAMES[kind]}"
            if kind == "bias" and "separable" in layer.name:
                name = f"{layer.name}.pointwise.bias"
            if kind in ("kernel", "pointwise_kernel"):
                value = value.permute(3, 2, 0, 1) if value.dim() == 4 else value.T
            if kind == "depthwise_kernel":
                value = value.permute(2, 3, 0, 1)
            state[name] = value.contiguous()
        if isinstance(layer, keras.layers.BatchNormalization):
            state[f"{layer.name}.num_batches_tracked"] = torch.tensor(0)
    return state


def gpt2(vocabulary=50257, length=1024, layers=12, heads=12, width=768):
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=length, n_layer=layers, n_head=heads, n_embd=width,
        tie_word_embeddings=False,
    )
    return transformers.GPT2LMHeadModel(config)


def gpt_state(model):
    """minGPT has the names of GPT2LMHeadModel, but ordinary linear layers, and its own last layer."""
    state = model.state_dict()
    linear = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return {name: value.T.contiguous() if name.endswith(linear) else value for name, value in state.items()}


def bert(**config):
    return transformers.BertForPreTraining(transformers.BertConfig(**config))


MODELS = {
    "resnet18": lambda: torchvision.models.resnet18().state_dict(),
    "resnet50": lambda: torchvision.models.resnet50().state_dict(),
    "inception_v3": lambda: torchvision.models.inception_v3(init_weights=False).state_dict(),
    "vgg11": lambda: torchvision.models.vgg11().state_dict(),
    "mobilenet_v2": lambda: torchvision.models.mobilenet_v2().state_dict(),
    "vit": lambda: torchvision.models.vit_b_16().state_dict(),
    "bert": lambda: bert().state_dict(),
    "gpt?size=gpt2": lambda: gpt_state(gpt2()),
    "small_xception": lambda: keras_state(small_xception()),
}


def lines_of(model, state):
    known = {}
    for name, value in state.items():
        same = known.setdefault((value.data_ptr(), tuple(value.shape)), name) if value.dim() > 0 else name
        dims = " ".join(map(str, value.shape))
        yield f"{model} {name} = {same}" if same != name else f"{model} {name} {dims}".rstrip()


def main():
    text = "".join(f"{line}\n" for model, build in MODELS.items() for line in lines_of(model, build()))
    PATH.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
