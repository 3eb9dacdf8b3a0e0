#!/usr/bin/env python3
"""Lets PyTorch's optimizers and learning-rate schedulers run, and writes what Rookery must reproduce:

  optimizer_traces.json      weights after some of 30 updates of a few small tensors, by settings of an optimizer
  learning_rate_traces.json  the rates of 100 steps, by settings of a schedule

Settings are as train.json has them. Needs PyTorch >= 1.13 only:  python3 tests/golden/make_optimizer_traces.py
"""

import json
import pathlib

import torch
from torch.optim import lr_scheduler

HERE = pathlib.Path(__file__).resolve().parent
SHAPES, UPDATES, KEPT_AFTER = [[5, 3], [1], [21]], 30, (1, 2, 10, 30)
STEPS, STEPS_PER_EPOCH = 100, 10

OPTIMIZERS = [
    {"name": "sgd", "learning_rate": 0.1},
    {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "dampening": 0.3},
    {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"name": "adam", "learning_rate": 0.01},
    {"name": "adam", "learning_rate": 0.01, "betas": [0.8, 0.99], "epsilon": 1e-3, "weight_decay": 0.1},
    {"name": "adamw", "learning_rate": 0.01},
    {"name": "adamw", "learning_rate": 0.01, "betas": [0.8, 0.99], "epsilon": 1e-3, "weight_decay": 0.5},
    {"name": "rmsprop"},
    {"name": "rmsprop", "learning_rate": 0.02, "alpha": 0.9, "epsilon": 1e-3, "weight_decay": 0.1},
    {"name": "rmsprop", "momentum": 0.9},
    {"name": "rmsprop", "alpha": 0.9, "epsilon": 1e-2, "momentum": 0.5, "centered": True},
]
CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
           "rmsprop": torch.optim.RMSprop}
RENAMED = {"learning_rate": "lr", "epsilon": "eps"}

SCHEDULES = [
    {"name": "constant"},
    {"name": "step", "step_size": 7, "gamma": 0.5},
    {"name": "step", "step_size": 3, "per": "epoch"},
    {"name": "cosine"},
    {"name": "cosine", "end_factor": 0.1, "per": "epoch"},
    {"name": "cosine", "warmup": 20, "start_factor": 0.1, "end_factor": 0.01},
    {"name": "linear_warmup", "warmup": 10},
    {"name": "linear_warmup", "warmup": 3, "start_factor": 0.05, "end_factor": 0.2, "per": "epoch"},
    {"name": "one_cycle"},
    {"name": "one_cycle", "pct_start": 0.15, "div_factor": 10, "final_div_factor": 100},
    {"name": "one_cycle", "per": "epoch"},
]
RATE = 0.4


def numbers(tensors):
    return [float(f"{x:.9g}") for tensor in tensors for x in tensor.flatten().tolist()]


def optimizer_of(settings, parameters):
    options = {RENAMED.get(key, key): value for key, value in settings.items() if key != "name"}
    if settings["name"] == "sgd":
        options.setdefault("lr", 1e-3)
    return CLASSES[settings["name"]](parameters, **options)


def optimizer_traces():
    torch.manual_seed(1)
    initial = [torch.randn(shape) for shape in SHAPES]
    gradients = [[torch.randn(shape) for shape in SHAPES] for _ in range(UPDATES)]
    # The rate changes from update to update.
    factors = [1 - 0.5 * update / UPDATES for update in range(UPDATES)]
    traces = []
    for settings in OPTIMIZERS:
        parameters = [torch.nn.Parameter(tensor.clone()) for tensor in initial]
        optimizer = optimizer_of(settings, parameters)
        rate = optimizer.param_groups[0]["lr"]
        weights = {}
        for update in range(UPDATES):
            optimizer.param_groups[0]["lr"] = rate * factors[update]
            for parameter, gradient in zip(parameters, gradients[update]):
                parameter.grad = gradient.clone()
            optimizer.step()
            if update + 1 in KEPT_AFTER:
                weights[str(update + 1)] = numbers(parameters)
        state = sorted(key for key, value in optimizer.state[parameters[0]].items()
                       if key != "step" and value is not None)
        traces.append({"optimizer": settings, "state": state, "weights": weights})
    return {"shapes": SHAPES, "initial": numbers(initial), "gradients": [numbers(g) for g in gradients],
            "factors": factors, "traces": traces}


def scheduler_of(settings, optimizer, length):
    name = settings["name"]
    if name == "constant":
        return lr_scheduler.ConstantLR(optimizer, factor=1)
    if name == "step":
        return lr_scheduler.StepLR(optimizer, settings["step_size"], settings.get("gamma", 0.1))
    if name == "one_cycle":
        options = {key: settings[key] for key in ("pct_start", "div_factor", "final_div_factor") if key in settings}
        return lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=length, **options)
    warmup, end = settings.get("warmup", 0), settings.get("end_factor", 0)
    if name == "cosine":
        decay = lr_scheduler.CosineAnnealingLR(optimizer, length - warmup, eta_min=RATE * end)
    else:
        decay = lr_scheduler.LinearLR(optimizer, 1, end, length - warmup)
    if warmup == 0:
        return decay
    rise = lr_scheduler.LinearLR(optimizer, settings.get("start_factor", 1 / 3), 1, warmup)
    return lr_scheduler.SequentialLR(optimizer, [rise, decay], [warmup])


def rates_of(settings):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    stride = STEPS_PER_EPOCH if settings.get("per") == "epoch" else 1
    scheduler = scheduler_of(settings, optimizer, STEPS // stride)
    rates = []
    for step in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % stride == 0 and step + 1 < STEPS:
            scheduler.step()
    return rates


def write(name, value):
    lines = json.dumps(value, separators=(",", ": ")).replace("],[", "],\n[").replace("},{", "},\n{")
    (HERE / name).write_text(lines + "\n")


def main():
    write("optimizer_traces.json", optimizer_traces())
    write("learning_rate_traces.json",
          {"rate": RATE, "steps_per_epoch": STEPS_PER_EPOCH, "epochs": STEPS // STEPS_PER_EPOCH,
           "traces": [{"schedule": settings, "rates": rates_of(settings)} for settings in SCHEDULES]})


main()
