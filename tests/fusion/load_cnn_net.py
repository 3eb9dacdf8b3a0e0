"""Loads a fused state dict into the equivalent PyTorch module: exits with 1 where that fails.

    load_cnn_net.py FILE.pt
"""

import collections
import sys

import torch
from torch import nn

model = nn.Sequential(
    collections.OrderedDict(
        conv2d_1=nn.Conv2d(1, 16, 3, padding="same"),
        relu_1=nn.ReLU(),
        max_pool_1=nn.MaxPool2d(2),
        dropout_1=nn.Dropout(0.25),
        bn_1=nn.BatchNorm2d(16),
        max_pool_2=nn.MaxPool2d(2),
        conv2d_2=nn.Conv2d(16, 32, 3, padding="same"),
        relu_2=nn.ReLU(),
        max_pool_3=nn.MaxPool2d(2),
        dropout_2=nn.Dropout(0.25),
        bn_2=nn.BatchNorm2d(32),
        flatten=nn.Flatten(),
        dense_1=nn.Linear(32, 256),
        relu_3=nn.ReLU(),
        dropout_3=nn.Dropout(0.4),
        bn_3=nn.BatchNorm1d(256),
        dense_2=nn.Linear(256, 10),
        softmax=nn.Softmax(dim=1),
    )
)
state = torch.load(sys.argv[1], weights_only=True)
assert list(state) == list(model.state_dict()), list(state)
model.load_state_dict(state, strict=True)
assert model.bn_3.num_batches_tracked.item() == 170
assert model.eval()(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
