"""Modules of images and of rows of numbers, as torchvision builds them."""

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """Blocks with a way around them, BatchNorm, grouped and depthwise convolutions, SiLU."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.stem(x)
        x = functional.silu(self.norm(self.depthwise(x)) + x)
        x = functional.adaptive_avg_pool2d(functional.max_pool2d(self.down(x), 2), 1)
        return self.fc(torch.flatten(x, 1))


class Normed(nn.Module):
    """GroupNorm, LayerNorm, both kinds of GELU, a linear layer over images' rows, shapes read from tensors."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.group = nn.GroupNorm(2, 8)
        self.layer = nn.LayerNorm(36)
        self.fc1 = nn.Linear(36, 16)
        self.fc2 = nn.Linear(16, 5, bias=False)

    def forward(self, x):
        x = self.group(self.conv(x))
        batch, channels, height, width = x.shape
        x = self.layer(x.view(batch, channels, height * width))
        x = functional.gelu(self.fc1(x))
        return self.fc2(functional.gelu(x, approximate="tanh")).mean(1)


class UpAndDown(nn.Module):
    """A transposed convolution, upsampling, a skip by concatenation; a mask as output."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(19, 1, 1)

    def forward(self, x):
        small = functional.leaky_relu(self.down(x), 0.1)
        large = functional.interpolate(small, scale_factor=2, mode="nearest")
        return self.last(torch.cat([self.up(small), large, x], dim=1))


class Series(nn.Module):
    """One dimension: convolutions, BatchNorm, a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 5, stride=2, padding=2)
        self.norm = nn.BatchNorm1d(8)
        self.up = nn.ConvTranspose1d(8, 6, 4, stride=2, padding=1)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = functional.hardswish(self.norm(self.conv(x)))
        return self.fc(functional.relu(self.up(x)).mean(2))


class TwoInputs(nn.Module):
    """Two inputs of their own shapes, an operand that depends on both."""

    def __init__(self):
        super().__init__()
        self.image = nn.Linear(192, 16)
        self.facts = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.0))
        self.both = nn.Linear(32, 5)
        self.gain = nn.Parameter(torch.ones(16))

    def forward(self, image, facts):
        image = functional.elu(self.image(image.flatten(1)))
        facts = self.facts(facts) * self.gain
        return self.both(torch.cat([image, facts], 1))


class TwoOutputs(nn.Module):
    """A class and a number of every image."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(8), nn.AvgPool2d(2), nn.Flatten())
        self.label = nn.Linear(128, 5)
        self.number = nn.Linear(128, 1)

    def forward(self, x):
        x = self.body(x)
        return self.label(x), torch.sigmoid(self.number(x))


class Bottleneck(nn.Module):
    """torchvision's residual block of three convolutions, twice, the first with a stride."""

    class Block(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or channels != 4 * width:
                self.downsample = nn.Sequential(
                    nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
                )

        def forward(self, x):
            way = x if self.downsample is None else self.downsample(x)
            x = self.relu(self.bn1(self.conv1(x)))
            x = self.relu(self.bn2(self.conv2(x)))
            return self.relu(self.bn3(self.conv3(x)) + way)

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Bottleneck.Block(3, 4, 2), Bottleneck.Block(16, 4, 1))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layer1(x)), 1))


class Inverted(nn.Module):
    """MobileNetV3's inverted residual with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8, eps=1e-3), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(128, 5))

    def forward(self, x):
        x = self.stem(x)
        y = self.depthwise(self.expand(x))
        return self.classifier(x + self.project(self.squeeze(y) * y))


class Dense(nn.Module):
    """DenseNet's layers, each of which reads what all before it made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, 4, 3, padding=1, bias=False)) for n in (3, 7, 11)
        )
        self.transition = nn.Sequential(nn.BatchNorm2d(15), nn.ReLU(), nn.Conv2d(15, 8, 1), nn.AvgPool2d(2, 2))
        self.classifier = nn.Linear(8, 5)

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return self.classifier(self.transition(torch.cat(features, 1)).mean([2, 3]))


class Inception(nn.Module):
    """Four branches side by side, pooling that keeps the size, kernels that are not square."""

    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 4, 1)
        self.two = nn.Sequential(nn.Conv2d(3, 4, (1, 3), padding=(0, 1)), nn.Conv2d(4, 4, (3, 1), padding=(1, 0)))
        self.three = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(3, 4, 1))
        self.four = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(3, 4, 1))
        self.norm, self.fc = nn.BatchNorm2d(16, eps=0.001), nn.Linear(16 * 4 * 4, 5)

    def forward(self, x):
        x = torch.cat([self.one(x), self.two(x), self.three(x), self.four(x)], 1)
        return self.fc(functional.max_pool2d(functional.relu(self.norm(x)), 3, 2, 1, ceil_mode=False).flatten(1))


class Shuffled(nn.Module):
    """ShuffleNet's unit: halves, of which one is worked on, and channels that change places."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.branch = nn.Sequential(
            nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.BatchNorm2d(4)
        )
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        one, other = self.stem(x).chunk(2, dim=1)
        x = torch.cat((one, self.branch(other)), dim=1)
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(batch, -1, height, width)
        return self.fc(functional.relu(x).mean([2, 3]))


class ConvNext(nn.Module):
    """A depthwise convolution, LayerNorm over channels that lie last, a scale for each layer."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, 2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.up, self.down = nn.LayerNorm(8, eps=1e-6), nn.Linear(8, 32), nn.Linear(32, 8)
        self.layer_scale = nn.Parameter(torch.full((8, 1, 1), 0.5))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.LayerNorm(8), nn.Linear(8, 5))

    def forward(self, x):
        x = self.patches(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)
        return self.head(x + self.layer_scale * y)


class Unet(nn.Module):
    """An image of classes: down and up again by bilinear upsampling, InstanceNorm, a skip."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.2))
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ELU())
        self.last = nn.Conv2d(16, 5, 3, padding=1)

    def forward(self, x):
        large = self.first(x)
        small = self.second(functional.max_pool2d(large, 2))
        again = functional.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([large, again], 1)).permute(0, 2, 3, 1).flatten(1, 2)


class PixelShuffle(nn.Module):
    """Upsampling by channels, padding by reflection and by zeros."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 12, 3), nn.PixelShuffle(2), nn.Tanh())
        self.tail = nn.Sequential(nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(3, 4, 2, 2), nn.SiLU(), nn.Flatten())
        self.fc = nn.Linear(256, 5)

    def forward(self, x):
        return self.fc(self.tail(self.body(x)))


class Vision(nn.Module):
    """torchvision's ViT: patches, a class token, positions, nn.MultiheadAttention, a norm before each part."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(16, eps=1e-6), nn.LayerNorm(16, eps=1e-6)
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 16))

        def forward(self, x):
            y = self.ln_1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.ln_2(x))

    def __init__(self):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, 16, 4, 4)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos_embedding = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
        self.layers = nn.Sequential(Vision.Block(), Vision.Block())
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embedding
        return self.head(self.layers(x)[:, 0])
