"""Modules of sequences: transformers, recurrent layers, convolutions of one dimension."""

import torch
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    """PyTorch's transformer, an embedding, positions, a token for the class."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.positions = nn.Parameter(torch.randn(1, 6, 16))
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1)
        return self.head(self.layers(x)[:, 0])


class Causal(nn.Module):
    """Attention written by hand, with a mask that is a buffer of the module; next tokens are predicted."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.place = nn.Embedding(6, 16)
        self.qkv = nn.Linear(16, 48)
        self.join = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 11, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).view(1, 1, 6, 6) == 0, persistent=False)

    def forward(self, ids):
        batch, length = ids.shape
        x = self.tokens(ids) + self.place(torch.arange(length).unsqueeze(0))
        q, k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).split(16, dim=2))
        scores = (q @ k.transpose(-2, -1)) * 8**-0.5
        scores = scores.masked_fill(self.mask[:, :, :length, :length], float("-inf"))
        y = (functional.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, 16)
        return self.head(x + self.join(y))


class Rotary(nn.Module):
    """Grouped queries, rotary embeddings whose tables every layer reads, RMS norms, a gated feed-forward."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
            self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)
            self.norm = nn.Parameter(torch.ones(16))

        def normal(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm

        def forward(self, x, cosine, sine):
            batch, length, _ = x.shape
            y = self.normal(x)

            def turned(z):
                one, other = z.chunk(2, -1)
                return z * cosine + torch.cat([-other, one], -1) * sine

            q = turned(self.q(y).view(batch, length, 4, 4).transpose(1, 2))
            k, v = (z.view(batch, length, 2, 4).transpose(1, 2) for z in self.kv(y).chunk(2, -1))
            k, v = (z.repeat_interleave(2, dim=1) for z in (turned(k), v))
            scores = (q @ k.transpose(-2, -1)) * 0.5
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf")).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, 16))
            y = self.normal(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(Rotary.Layer() for _ in range(2))
        self.head = nn.Linear(16, 11, bias=False)
        angles = torch.arange(6)[:, None] * 0.1 ** (torch.arange(2) / 2)
        self.register_buffer("cosine", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sine", torch.cat([angles.sin()] * 2, -1), persistent=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return self.head(x)


class Decoder(nn.Module):
    """nn.TransformerDecoderLayer, with a causal mask, over what an encoder made."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 11)
        self.register_buffer("mask", torch.ones(6, 6).triu(1) * -1e9, persistent=False)

    def forward(self, ids):
        x = self.tokens(ids)
        return self.head(self.decoder(x, self.encoder(x), tgt_mask=self.mask))


class Fused(nn.Module):
    """functional.scaled_dot_product_attention where this PyTorch has it, a gate, and RMS norms of two axes."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(6, 16)
        self.qkv, self.gate, self.out = nn.Linear(16, 48, bias=False), nn.Linear(16, 16), nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.ones(16))
        self.head = nn.Linear(16, 11)

    def attend(self, q, k, v):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(later, float("-inf"))
        return scores.softmax(-1) @ v

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        y = functional.normalize(x, dim=-1) * self.scale
        q, k, v = self.qkv(y).view(-1, 6, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = self.attend(q, k, v).transpose(1, 2).flatten(2)
        return self.head(x + self.out(y) * torch.sigmoid(self.gate(x)))


class LeftPadded(nn.Module):
    """Attention that sees neither what comes later nor the padding in front, whose rows so see nothing at all: zeros in
    functional.scaled_dot_product_attention from PyTorch 2.5 on."""

    def __init__(self):
        super().__init__()
        self.tokens, self.qkv, self.out = nn.Embedding(11, 16), nn.Linear(16, 48), nn.Linear(16, 11)

    def attend(self, q, k, v, seen):
        if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5):
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(~seen, -1e9)
        return (scores.softmax(-1) * seen) @ v

    def forward(self, ids):
        q, k, v = self.qkv(self.tokens(ids)).view(-1, 6, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        earlier = torch.ones(6, 6, dtype=torch.bool, device=ids.device).tril()
        y = self.attend(q, k, v, (ids != 0)[:, None, None, :] & earlier)
        return self.out(y.transpose(1, 2).flatten(2))


class Mixer(nn.Module):
    """MLP-Mixer: linear layers over places, then over channels."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.places = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
        self.channels = nn.Sequential(nn.Linear(16, 24), nn.GELU("tanh"), nn.Linear(24, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        x = self.tokens(ids)
        x = x + self.places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        return self.head(x.mean(dim=1))


class Lstm(nn.Module):
    """Two layers in both directions."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, ids):
        return self.head(self.lstm(self.tokens(ids))[0][:, -1])


class Gru(nn.Module):
    """Initial states that the module makes, and one that it trains; places come before samples."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.gru, self.second = nn.GRU(8, 6), nn.GRU(6, 6, bias=False)
        self.state, self.first = nn.Linear(8, 6), nn.Parameter(torch.randn(1, 1, 6))
        self.head = nn.Linear(6, 11)

    def forward(self, ids):
        x = self.tokens(ids).transpose(0, 1)
        y, _ = self.gru(x, self.state(x[0]).unsqueeze(0))
        y, last = self.second(y, self.first.expand(1, ids.shape[0], 6).contiguous())
        return self.head((y + last).transpose(0, 1))


class Plain(nn.Module):
    """nn.RNN of both activations."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.one = nn.RNN(8, 6, batch_first=True)
        self.two = nn.RNN(6, 6, nonlinearity="relu", batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 5)

    def forward(self, ids):
        return self.head(self.two(self.one(self.tokens(ids))[0])[0].mean(1))


class Wave(nn.Module):
    """WaveNet's gated convolutions: dilated, causal by padding, a sum of skips, GLU."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.convolutions = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=1 + i) for i in range(2))
        self.skips = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(2))
        self.head = nn.Conv1d(8, 11, 1)

    def forward(self, ids):
        x, total = self.tokens(ids).transpose(1, 2), 0
        for i, (convolution, skip) in enumerate(zip(self.convolutions, self.skips)):
            y = functional.glu(convolution(functional.pad(x, (1 + i, 0))), dim=1)
            total, x = total + skip(y), x + y
        return self.head(torch.relu(total)).transpose(1, 2)


class Products(nn.Module):
    """einsum in place of layers, cumulative sums, norms, what sines tell of places."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.w, self.u = nn.Parameter(torch.randn(2, 8, 4) * 0.3), nn.Parameter(torch.randn(2, 4, 8) * 0.3)
        self.rate = nn.Parameter(torch.rand(8))
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        x = self.tokens(ids)
        x = x + torch.sin(torch.ones_like(x).cumsum(1) * self.rate) * torch.cos(self.rate)
        heads = torch.einsum("bsd,hde->bhse", x, self.w)
        scores = torch.einsum("bhse,bhte->bhst", heads, heads).softmax(-1)
        mixed = torch.einsum("bhst,bhte,hed->bsd", scores, heads, self.u)
        return self.head(mixed / (1 + mixed.norm(dim=-1, keepdim=True)))
