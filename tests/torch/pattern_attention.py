"""Spellings of attention, rotary embedding and gated MLPs, each as a module of its own. See patterns.py."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from pattern import OPSETS, Pattern

BATCH, TOKENS, HEADS, HEAD = 2, 5, 3, 4
WIDTH = HEADS * HEAD


def causal_mask(tokens, value):
    return torch.triu(torch.full((tokens, tokens), value), diagonal=1)


class Attention(nn.Module):
    """Queries, keys and values of their own projections. scale: where it stands; mask: what is done to the scores."""

    def __init__(self, scale="after", mask="none", key_heads=HEADS, softmax=torch.softmax):
        super().__init__()
        self.key_heads = key_heads
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, key_heads * HEAD), nn.Linear(WIDTH, key_heads * HEAD)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.scale, self.mask, self.softmax = scale, mask, softmax
        # GPT-2 keeps a triangle as a buffer; nanoGPT fills with -inf; others add a large negative number.
        self.register_buffer("triangle", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))
        self.register_buffer("added", causal_mask(TOKENS, float("-inf")))

    def heads(self, x, count):
        return x.view(x.shape[0], -1, count, HEAD).transpose(1, 2)

    def repeated(self, x):
        """[batch, key heads, tokens, head] to all heads, as LLaMA does it."""
        if self.key_heads == HEADS:
            return x
        n, count, tokens, head = x.shape
        times = HEADS // self.key_heads
        return x[:, :, None].expand(n, count, times, tokens, head).reshape(n, count * times, tokens, head)

    def scores(self, q, k):
        root = math.sqrt(HEAD)
        if self.scale == "query":
            return (q / root) @ k.transpose(-2, -1)
        if self.scale == "both":
            return (q * HEAD ** -0.25) @ (k * HEAD ** -0.25).transpose(-2, -1)
        if self.scale == "key":
            return q @ (k.transpose(-2, -1) * HEAD ** -0.5)
        if self.scale == "none":
            return q @ k.transpose(-2, -1)
        if self.scale == "multiplied":
            return q @ k.transpose(-2, -1) * HEAD ** -0.5
        return q @ k.transpose(-2, -1) / root

    def masked(self, scores, mask):
        tokens = scores.shape[-1]
        if self.mask == "fill":
            return scores.masked_fill(self.triangle[:, :, :tokens, :tokens] == 0, float("-inf"))
        if self.mask == "where":
            return torch.where(self.triangle[:, :, :tokens, :tokens].bool(), scores,
                               torch.full([], torch.finfo(scores.dtype).min))
        if self.mask == "added":
            return scores + self.added
        if self.mask == "built":
            return scores + torch.full((tokens, tokens), float("-inf")).triu(1)
        if self.mask == "gpt2":  # as OpenAI's code has it
            b = self.triangle[:, :, :tokens, :tokens]
            return scores * b - 1e4 * (1 - b)
        if self.mask == "input":
            return scores + mask
        if self.mask == "boolean":  # of keys, False for padding
            return scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        if self.mask == "boolean_lowest":
            return scores.masked_fill(mask[:, None, None, :] == 0, torch.finfo(scores.dtype).min)
        if self.mask == "causal_padding":
            scores = scores.masked_fill(self.triangle[:, :, :tokens, :tokens] == 0, float("-inf"))
            return scores + (1.0 - mask[:, None, None, :]) * -10000.0
        if self.mask == "window":
            return scores.masked_fill(self.triangle[:, :, :tokens, :tokens].triu(-1) == 0, float("-inf"))
        if self.mask == "padding":  # BERT: 1 for tokens, 0 for padding
            return scores + (1.0 - mask[:, None, None, :]) * -10000.0
        return scores

    def forward(self, x, mask=None):
        n, tokens, _ = x.shape
        q, k, v = (self.heads(self.q(x), HEADS), self.heads(self.k(x), self.key_heads),
                   self.heads(self.v(x), self.key_heads))
        weights = self.softmax(self.masked(self.scores(q, self.repeated(k)), mask), dim=-1)
        mixed = (weights @ self.repeated(v)).transpose(1, 2)
        return self.out(mixed.reshape(n, tokens, WIDTH))


class FusedProjection(nn.Module):
    """One projection for queries, keys and values. split: timm's reshape and permute, or GPT's split."""

    def __init__(self, split):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.split = split

    def forward(self, x):
        n, tokens, _ = x.shape
        if self.split == "permute":
            q, k, v = self.qkv(x).reshape(n, tokens, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4).unbind(0)
        elif self.split == "index":
            qkv = self.qkv(x).reshape(n, tokens, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[1], qkv[2]
        else:
            q, k, v = (part.view(n, tokens, HEADS, HEAD).transpose(1, 2) for part in self.qkv(x).split(WIDTH, dim=2))
        weights = F.softmax(q @ k.transpose(-2, -1) * HEAD ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, tokens, WIDTH))


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        n, tokens, _ = x.shape
        q, k, v = (t.reshape(n, tokens, HEADS, HEAD) for t in self.qkv(x).chunk(3, dim=-1))
        weights = torch.softmax(torch.einsum("bihd,bjhd->bhij", q, k) * HEAD ** -0.5, dim=-1)
        return self.out(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(n, tokens, WIDTH))


class Flattened(nn.Module):
    """fairseq's and nn.MultiheadAttention's way: batch and heads as one axis, bmm."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        n, tokens, _ = x.shape
        q, k, v = (p(x).view(n, tokens, HEADS, HEAD).transpose(1, 2).reshape(n * HEADS, tokens, HEAD)
                   for p in (self.q, self.k, self.v))
        weights = torch.softmax(torch.bmm(q * HEAD ** -0.5, k.transpose(1, 2)), dim=-1)
        mixed = torch.bmm(weights, v).view(n, HEADS, tokens, HEAD).transpose(1, 2)
        return self.out(mixed.reshape(n, tokens, WIDTH))


class Multihead(nn.Module):
    """nn.MultiheadAttention. Its fast path has no ONNX form; an exporter's user switches it off by training mode."""

    def __init__(self, batch_first, mask=False, cross=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
        nn.init.normal_(self.attention.in_proj_bias, 0, 0.2)
        self.register_buffer("mask", causal_mask(TOKENS, float("-inf")) if mask else None)
        self.cross = cross

    def train(self, mode=True):
        return super().train(True)

    def forward(self, x, y=None):
        other = y if self.cross else x
        return self.attention(x, other, other, attn_mask=self.mask, need_weights=False)[0]


class Cross(Attention):
    """Queries of one sequence, keys and values of another."""

    def forward(self, x, y):
        q, k, v = self.heads(self.q(x), HEADS), self.heads(self.k(y), HEADS), self.heads(self.v(y), HEADS)
        weights = torch.softmax(self.scores(q, k), dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Scores(nn.Module):
    """Attention and nothing else: q, k and v are inputs [batch, heads, tokens, head]."""

    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(HEAD), dim=-1) @ v


class Rotary(nn.Module):
    """x [batch, heads, tokens, head]. "half": LLaMA's rotate_half of tables of cos and sin that stand in the file;
    "computed": the same of tables computed from the position ids; "interleaved": GPT-J's neighbours, each angle twice in a
    row; "pairs": the neighbours by reshape and stack; "strided": the same by slices; "parts": halves, each by itself;
    "partial": GPT-NeoX's, of which half of each head turns."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.register_buffer("inverse", 1.0 / (10000.0 ** (torch.arange(0, HEAD, 2).float() / HEAD)))
        angles = torch.outer(torch.arange(16).float(), self.inverse)
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos()[None, None])
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin()[None, None])

    @staticmethod
    def rotate_half(x):
        a, b = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
        return torch.cat((-b, a), dim=-1)

    @staticmethod
    def rotate_neighbours(x):
        # An ellipsis here, and flatten(-2), are written wrongly by PyTorch 1.13: the file's shapes contradict each other.
        return torch.stack((-x[:, :, :, 1::2], x[:, :, :, ::2]), dim=-1).reshape(x.shape)

    def forward(self, x, positions=None):
        tokens = x.shape[2]
        if self.kind == "half":
            cos, sin = self.cos[:, :, :tokens], self.sin[:, :, :tokens]
            return x * cos + self.rotate_half(x) * sin
        if self.kind == "computed":
            angles = positions[:, :, None].float() @ self.inverse[None, None, :]
            angles = torch.cat((angles, angles), dim=-1)
            cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
            return x * cos + self.rotate_half(x) * sin
        if self.kind == "gathered":  # older transformers: tables indexed by the positions
            cos, sin = self.cos[0, 0][positions].unsqueeze(1), self.sin[0, 0][positions].unsqueeze(1)
            return x * cos + self.rotate_half(x) * sin
        if self.kind == "partial":
            part, rest = x[..., :HEAD], x[..., HEAD:]
            return torch.cat((part * self.cos[:, :, :tokens] + self.rotate_half(part) * self.sin[:, :, :tokens], rest), -1)
        angles = torch.outer(torch.arange(tokens).float(), self.inverse)
        if self.kind == "interleaved":
            # As repeat_interleave() is written by later exporters; 1.13 writes a loop.
            cos, sin = (t[:, :, None].expand(tokens, HEAD // 2, 2).reshape(tokens, HEAD)
                        for t in (angles.cos(), angles.sin()))
            return x * cos + self.rotate_neighbours(x) * sin
        if self.kind == "parts":
            a, b = x[..., :HEAD // 2], x[..., HEAD // 2:]
            cos, sin = angles.cos(), angles.sin()
            return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
        if self.kind == "strided":
            a, b = x[:, :, :, ::2], x[:, :, :, 1::2]
            cos, sin = angles.cos(), angles.sin()
            return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).reshape(x.shape)
        a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class GatedMlp(nn.Module):
    def __init__(self, activation, one_product=False, gate_last=False):
        super().__init__()
        self.activation, self.one_product, self.gate_last = activation, one_product, gate_last
        if one_product:
            self.up = nn.Linear(WIDTH, 2 * 16, bias=False)
        else:
            self.gate, self.up = nn.Linear(WIDTH, 16, bias=False), nn.Linear(WIDTH, 16, bias=False)
        self.down = nn.Linear(16, WIDTH, bias=False)

    def forward(self, x):
        if self.one_product:
            gate, up = self.up(x).chunk(2, dim=-1)
        else:
            gate, up = self.gate(x), self.up(x)
        if self.gate_last:
            return self.down(up * self.activation(gate))
        return self.down(self.activation(gate) * up)


class LlamaLayer(nn.Module):
    """What a decoder's layer is made of, together: rms norm, rotary embedding, grouped heads, causal mask, gated MLP."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ParameterList(nn.Parameter(torch.rand(WIDTH) + 0.5) for _ in range(2))
        self.rotary = Rotary("half")
        self.q, self.k = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, HEAD, bias=False)
        self.v, self.o = nn.Linear(WIDTH, HEAD, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = GatedMlp(F.silu)

    def norm(self, x, weight):
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def attention(self, x):
        n, tokens, _ = x.shape
        q, k, v = (p(x).view(n, tokens, -1, HEAD).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = self.rotary(q), self.rotary(k)
        k, v = (t[:, :, None].expand(n, 1, HEADS, tokens, HEAD).reshape(n, HEADS, tokens, HEAD) for t in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(HEAD) + causal_mask(tokens, torch.finfo(torch.float32).min)
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o((weights @ v).transpose(1, 2).reshape(n, tokens, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm(x, self.norms[0]))
        return x + self.mlp(self.norm(x, self.norms[1]))


def sequence(batch=BATCH, tokens=TOKENS):
    return torch.randn(batch, tokens, WIDTH)


def projected(*inputs, opsets=OPSETS, more=(), **options):
    """An attention layer with four products around it. more: what has to be made of its mask."""
    return lambda: Pattern(Attention(**options), [sequence(), *(make() for make in inputs)],
                           {"matmul": 4, "attention": 1, **dict.fromkeys(more, 1)}, opsets)


def layer(make, products, inputs=1):
    return lambda: Pattern(make(), [sequence() for _ in range(inputs)], {"matmul": products, "attention": 1})


def rotary(kind, with_positions=False):
    def make():
        inputs = [torch.randn(BATCH, HEADS, TOKENS, 2 * HEAD if kind == "partial" else HEAD)]
        if with_positions:
            inputs.append(torch.arange(TOKENS).expand(BATCH, TOKENS).contiguous())
        return Pattern(Rotary(kind), inputs, {"rope": 1})
    return make


def gated(activation, products=3, **options):
    return lambda: Pattern(GatedMlp(activation, **options), [sequence()], {"matmul": products, "gated": 1})


def padding():
    mask = torch.ones(BATCH, TOKENS)
    mask[0, 3:] = 0
    return mask


PATTERNS = {
    "attention_scores": lambda: Pattern(Scores(), [torch.randn(BATCH, HEADS, TOKENS, HEAD) for _ in range(3)], {"attention": 1}),
    "attention_divided": projected(scale="after"),
    "attention_multiplied": projected(scale="multiplied"),
    "attention_query_scaled": projected(scale="query"),
    "attention_key_scaled": projected(scale="key"),
    "attention_both_scaled": projected(scale="both"),
    "attention_unscaled": projected(scale="none"),
    "attention_grouped": projected(key_heads=1),
    "attention_softmax_by_hand": projected(softmax=lambda x, dim: torch.exp(x - x.amax(dim, True)) /
                                           torch.exp(x - x.amax(dim, True)).sum(dim, keepdim=True)),
    "attention_causal_fill": projected(mask="fill"),
    "attention_causal_where": projected(mask="where"),
    "attention_causal_added": projected(mask="added"),
    "attention_causal_built": projected(mask="built", opsets=OPSETS[1:]),  # triu's first opset is 14
    "attention_causal_gpt2": projected(mask="gpt2"),
    # A mask that is data is added to the scores.
    "attention_mask_input": projected(lambda: torch.randn(BATCH, 1, TOKENS, TOKENS), mask="input"),
    "attention_mask_padding": projected(padding, mask="padding", more=["affine"]),
    "attention_mask_boolean": projected(lambda: padding().bool(), mask="boolean", more=["logical_not", "affine"]),
    "attention_mask_lowest": projected(padding, mask="boolean_lowest", more=["equal", "affine"]),
    "attention_causal_padding": projected(padding, mask="causal_padding", more=["affine"]),
    "attention_window": projected(mask="window", opsets=OPSETS[1:]),
    "attention_qkv_permuted": layer(lambda: FusedProjection("permute"), 2),
    "attention_qkv_indexed": layer(lambda: FusedProjection("index"), 2),
    "attention_qkv_split": layer(lambda: FusedProjection("split"), 2),
    "attention_einsum": layer(Einsum, 2),
    "attention_flattened": layer(Flattened, 4),
    "attention_cross": layer(Cross, 4, inputs=2),
    "multihead": layer(lambda: Multihead(batch_first=True), 2),
    "multihead_sequence_first": layer(lambda: Multihead(batch_first=False), 2),
    "multihead_causal": layer(lambda: Multihead(batch_first=True, mask=True), 2),
    "multihead_cross": layer(lambda: Multihead(batch_first=True, cross=True), 3, inputs=2),
    "rotary_half": rotary("half"),
    "rotary_computed": rotary("computed", with_positions=True),
    "rotary_gathered": rotary("gathered", with_positions=True),
    "rotary_interleaved": rotary("interleaved"),
    "rotary_pairs": rotary("pairs"),
    "rotary_strided": rotary("strided"),
    "rotary_parts": rotary("parts"),
    "rotary_partial": rotary("partial"),
    "swiglu": gated(F.silu),
    "swiglu_up_first": gated(F.silu, gate_last=True),
    "swiglu_one_product": gated(F.silu, products=2, one_product=True),
    "geglu": gated(F.gelu),
    "geglu_tanh": gated(lambda x: F.gelu(x, approximate="tanh")),
    "llama_layer": lambda: Pattern(LlamaLayer(), [sequence()],
                                   {"rms_norm": 2, "matmul": 7, "rope": 2, "attention": 1, "gated": 1, "add": 2}, OPSETS[1:]),
}
