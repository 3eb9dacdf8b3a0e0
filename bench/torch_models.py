"""The models of bench/training_step.py as PyTorch modules, with the parameter names of Rookery's zoo, and
the batches they are trained on.
"""

import dataclasses
import json
import math
import pathlib
import sys
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
from make_cnn_net_trace import CnnNet, read_digits  # noqa: E402

BATCHES = 8


class DeepMlp(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [784, 128] + 9 * [512] + [10]
        self.depth = len(widths) - 1
        for i in range(self.depth):
            self.add_module(f"dense_{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        for i in range(1, self.depth):
            x = torch.relu(self.get_submodule(f"dense_{i}")(x))
        return self.get_submodule(f"dense_{self.depth}")(x)


class Vgg11(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"):
            if width == "pool":
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class BasicBlock(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or before != channels:
            self.downsample = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x):
        beside = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += beside
        return self.relu(y)


class Resnet18(nn.Module):
    """As torchvision's."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for layer, before, channels in ((1, 64, 64), (2, 64, 128), (3, 128, 256), (4, 256, 512)):
            self.add_module(f"layer{layer}", nn.Sequential(BasicBlock(before, channels, 1 if layer == 1 else 2),
                                                           BasicBlock(channels, channels, 1)))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        beside = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += beside
        return self.relu(y)


class Resnet50(Resnet18):
    """As torchvision's."""

    def __init__(self):
        super().__init__()
        before = 64
        for layer, width, blocks in ((1, 64, 3), (2, 128, 4), (3, 256, 6), (4, 512, 3)):
            stride = 1 if layer == 1 else 2
            parts = [Bottleneck(before, width, stride)] + [Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)]
            self.add_module(f"layer{layer}", nn.Sequential(*parts))
            before = 4 * width
        self.fc = nn.Linear(2048, 1000)


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.attn_dropout = nn.Dropout(dropout)
        self.resid_dropout = nn.Dropout(dropout)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               dropout_p=self.attn_dropout.p if self.training else 0.0)
        else:
            scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.shape[-1]))
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            y = self.attn_dropout(scores.masked_fill(later, -math.inf).softmax(-1)) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width),
                                  "dropout": nn.Dropout(dropout)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        hidden = F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp.dropout(self.mlp.c_proj(hidden))


class OneBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.block = Block(width, heads, 0.0)

    def forward(self, x):
        return self.block(x)


class Gpt(nn.Module):
    """As minGPT's, whose mask is not part of the state here."""

    def __init__(self, vocabulary, length, layers, heads, width, dropout):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(length, width),
            "drop": nn.Dropout(dropout),
            "h": nn.ModuleList(Block(width, heads, dropout) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width),
        })
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                layers_below = 2 * layers if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 / math.sqrt(layers_below))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids):
        x = self.transformer.wte(ids) + self.transformer.wpe(torch.arange(ids.shape[1])[None])
        x = self.transformer.drop(x)
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class BertLayer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = nn.ModuleDict({
            "self": nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")}),
            "output": nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=1e-12)}),
        })
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = nn.ModuleDict({"dense": nn.Linear(4 * width, width), "LayerNorm": nn.LayerNorm(width, eps=1e-12)})
        self.heads, self.dropout = heads, nn.Dropout(dropout)

    def attend(self, x, mask):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.attention["self"].values())
        if hasattr(F, "scaled_dot_product_attention"):
            dropout = self.dropout.p if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        else:
            scores = (q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])).masked_fill(~mask, -math.inf)
            y = self.dropout(scores.softmax(-1)) @ v
        return y.transpose(1, 2).flatten(2)

    def forward(self, x, mask):
        after = self.attention["output"]
        x = after["LayerNorm"](x + self.dropout(after["dense"](self.attend(x, mask))))
        hidden = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + self.dropout(self.output["dense"](hidden)))


class Bert(nn.Module):
    """As Hugging Face's BertForPreTraining."""

    def __init__(self, dropout, vocabulary=30522, positions=512, layers=12, heads=12, width=768):
        super().__init__()
        self.bert = nn.ModuleDict({
            "embeddings": nn.ModuleDict({
                "word_embeddings": nn.Embedding(vocabulary, width),
                "token_type_embeddings": nn.Embedding(2, width),
                "position_embeddings": nn.Embedding(positions, width),
                "LayerNorm": nn.LayerNorm(width, eps=1e-12),
            }),
            "encoder": nn.ModuleDict({"layer": nn.ModuleList(BertLayer(width, heads, dropout) for _ in range(layers))}),
            "pooler": nn.ModuleDict({"dense": nn.Linear(width, width)}),
        })
        self.cls = nn.ModuleDict({
            "predictions": BertPredictions(vocabulary, width),
            "seq_relationship": nn.Linear(width, 2),
        })
        self.dropout = nn.Dropout(dropout)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, types, attended):
        embeddings = self.bert["embeddings"]
        words = embeddings["word_embeddings"]
        x = words(ids) + embeddings["token_type_embeddings"](types)
        x = self.dropout(embeddings["LayerNorm"](x + embeddings["position_embeddings"].weight[:ids.shape[1]]))
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x, attended.bool()[:, None, None])
        pooled = torch.tanh(self.bert["pooler"]["dense"](x[:, 0]))
        return self.cls["predictions"](x, words.weight), self.cls["seq_relationship"](pooled)


class BertPredictions(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.transform = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=1e-12)})
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, x, words):
        return F.linear(self.transform["LayerNorm"](F.gelu(self.transform["dense"](x))), words, self.bias)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(256, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def random_tokens(batch, length, vocabulary):
    return [{name: torch.randint(vocabulary, (batch, length)) for name in ("input", "labels")} for _ in range(BATCHES)]


def random_batches(shape, classes):
    return [{"input": torch.randn(shape), "labels": torch.randint(classes, (shape[0],))} for _ in range(BATCHES)]


def digits():
    """The batches of the golden trace, on which training is well conditioned."""
    images, labels = read_digits()
    trace = json.loads((GOLDEN / "cnn_net_trace.json").read_text())
    return [{"input": images[ids].contiguous(), "labels": labels[ids]} for ids in trace["batches"]]


def sentences(batch, length, vocabulary):
    """Pairs of sentences, of which all but the first are filled up."""
    lengths = torch.tensor([length] + [length - length // 4] * (batch - 1))
    places = torch.arange(length).expand(batch, length)
    return [{"input_ids": torch.randint(vocabulary, (batch, length)),
             "token_type_ids": (places > length // 2).long(),
             "attention_mask": (places < lengths[:, None]).long(),
             "labels": torch.randint(vocabulary, (batch, length)),
             "next_sentence_label": torch.randint(2, (batch,))} for _ in range(BATCHES)]


def cross_entropy(prediction, labels):
    return F.cross_entropy(prediction.flatten(0, -2), labels.flatten())


def both_heads(predictions, words, is_next):
    return cross_entropy(predictions[0], words) + cross_entropy(predictions[1], is_next)


@dataclasses.dataclass
class Model:
    build: Callable  # (dropout) -> module
    batches: Callable  # () -> [{name of an input or a target: tensor}]
    inputs: tuple = ("input",)
    targets: tuple = ("labels",)
    images: bool = False  # then channels_last is worth a try
    recurrent: bool = False  # then other ways to run its layers are
    loss: Callable = cross_entropy  # (what the module returns, targets)
    state: pathlib.Path = None  # of the initial weights, where they are not random

    def target(self, target):
        """Class indices are one-hot vectors to the mean squared error."""
        return F.one_hot(target, 10).float() if self.loss is F.mse_loss and not target.is_floating_point() else target


def random_sequences(batch, length, width):
    shape = (batch, length, width)
    return [{"input": torch.randn(shape), "labels": torch.randn(shape)} for _ in range(BATCHES)]


MODELS = {
    "cnn_net": Model(lambda dropout: CnnNet(dropout=dropout), digits, images=True, loss=F.mse_loss,
                     state=GOLDEN / "cnn_net_initial.safetensors"),
    "deep_mlp": Model(lambda dropout: DeepMlp(), lambda: random_batches((64, 784), 10)),
    "vgg11": Model(lambda dropout: Vgg11(), lambda: random_batches((64, 3, 32, 32), 10), images=True),
    "resnet18": Model(lambda dropout: Resnet18(), lambda: random_batches((16, 3, 64, 64), 1000), images=True),
    "resnet50": Model(lambda dropout: Resnet50(), lambda: random_batches((4, 3, 224, 224), 1000), images=True),
    "transformer_block": Model(lambda dropout: OneBlock(768, 12), lambda: random_sequences(8, 128, 768), loss=F.mse_loss),
    "bert_base": Model(lambda dropout: Bert(0.1 if dropout else 0.0), lambda: sentences(4, 128, 30522),
                       inputs=("input_ids", "token_type_ids", "attention_mask"),
                       targets=("labels", "next_sentence_label"), loss=both_heads),
    "lstm": Model(lambda dropout: Lstm(), lambda: random_batches((32, 64, 256), 10), recurrent=True),
    "gpt_nano": Model(lambda dropout: Gpt(3, 11, 3, 3, 48, 0.1 if dropout else 0.0),
                      lambda: random_tokens(64, 11, 3)),
}
