"""Single nodes of attention and what stands around it: ONNX's of opset 23 and ONNX Runtime's (com.microsoft), with what their
specifications say they give, in double precision. See patterns.py."""

import numpy as np

from pattern_handmade import BATCH, HEAD, HEADS, TOKENS, WIDTH, Net, floats, gelu, gelu_tanh, heads, ints, layer_norm, merged

MS = "com.microsoft"
KEYS = 7


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attended(q, k, v, scale=None, mask=None, causal=False, past=0, softcap=0.0, window=0):
    """[batch, heads, tokens, head]: the result, the scores and the weights. past: keys that are earlier than the queries."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat(times, 1), v.repeat(times, 1)
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    bias = 0.0
    if causal:
        places = np.arange(q.shape[2])[:, None] + past
        hidden = np.arange(k.shape[2]) > places
        if window:
            hidden |= np.arange(k.shape[2]) <= places - window
        bias = np.where(hidden, -np.inf, 0.0)
    if mask is not None:
        bias = bias + (np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64))
    weights = softmax(scores + bias)
    return weights @ v, scores, weights


def operands(key_heads=HEADS, keys=TOKENS, value_head=HEAD):
    return (floats(40, BATCH, HEADS, TOKENS, HEAD), floats(41, BATCH, key_heads, keys, HEAD),
            floats(42, BATCH, key_heads, keys, value_head))


def attention(rank=4, key_heads=HEADS, keys=TOKENS, value_head=HEAD, mask=None, is_causal=0, opset=23, ops=None,
              **attributes):
    """mask: shape of an input that is added, or a boolean array."""
    def make():
        q, k, v = operands(key_heads, keys, value_head)
        inputs = {"q": q, "k": k, "v": v}
        if rank == 3:
            inputs = {n: merged(t) for n, t in inputs.items()}
            attributes.update(q_num_heads=HEADS, kv_num_heads=key_heads)
        if mask is not None:
            inputs["mask"] = mask if isinstance(mask, np.ndarray) else floats(43, *mask)
        expected, _, _ = attended(q, k, v, attributes.get("scale"), inputs.get("mask"), bool(is_causal),
                                  softcap=attributes.get("softcap", 0.0))
        net = Net(**inputs)
        net.Attention(*inputs, is_causal=is_causal, **attributes)
        return net.finish(opset, merged(expected) if rank == 3 else expected, **(ops or {"attention": 1}))
    return make


def attention_past(rank):
    """Keys and values go on where earlier ones ended."""
    def make():
        q, k, v = operands(key_heads=1)
        past_key, past_value = floats(44, BATCH, 1, 3, HEAD), floats(45, BATCH, 1, 3, HEAD)
        keys, values = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
        inputs, attributes = {"q": q, "k": k, "v": v}, {}
        if rank == 3:
            inputs = {n: merged(t) for n, t in inputs.items()}
            attributes.update(q_num_heads=HEADS, kv_num_heads=1)
        inputs.update(past_key=past_key, past_value=past_value)
        y, _, _ = attended(q, keys, values, causal=True, past=3)
        net = Net(**inputs)
        net.Attention("q", "k", "v", None, "past_key", "past_value", is_causal=1, outputs=["y", "keys", "values"], **attributes)
        return net.finish(23, {"y": merged(y) if rank == 3 else y, "keys": keys, "values": values}, attention=1)
    return make


def attention_scores(mode):
    def make():
        q, k, v = operands()
        mask = floats(46, TOKENS, TOKENS)
        y, scores, weights = attended(q, k, v, mask=mask)
        net = Net(q=q, k=k, v=v, mask=mask)
        net.Attention("q", "k", "v", "mask", qk_matmul_output_mode=mode, outputs=["y", "", "", "scores"])
        # The scores are asked for: nothing can be fused. A query whose keys are all masked gets zeros.
        return net.finish(23, {"y": y, "scores": weights if mode == 3 else scores}, matmul=2, affine=1, add=1, softmax=1,
                          reduce_max=1, full=2, greater=1, where=2)
    return make


def attention_lengths():
    q, k, v = operands()
    lengths = ints(TOKENS, 3)
    seen = np.arange(TOKENS) < lengths[:, None, None, None]
    net = Net(q=q, k=k, v=v, lengths=lengths)
    net.Attention("q", "k", "v", None, None, None, "lengths")
    return net.finish(24, attended(q, k, v, mask=seen)[0], less=1, affine=1, attention=1)


def tables(rows=8, size=HEAD):
    angles = np.outer(np.arange(rows), 10000.0 ** (-np.arange(0, size, 2) / size))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotated(x, positions, interleaved=False, size=None):
    """[batch, heads, tokens, head], by positions [batch, tokens], the first `size` elements of each head."""
    size = size or x.shape[-1]
    x, rest = x[..., :size].astype(np.float64), x[..., size:]
    angles = positions[:, None, :, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :size // 2], x[..., size // 2:])
    first, second = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
    turned = np.stack([first, second], -1).reshape(x.shape) if interleaved else np.concatenate([first, second], -1)
    return np.concatenate([turned, rest], -1)


def rotary(interleaved=False, rank=4, size=HEAD, head=HEAD, looked_up=True, ops=None):
    def make():
        x, positions = floats(47, BATCH, HEADS, TOKENS, head), np.tile(np.arange(TOKENS) + 2, (BATCH, 1))
        cos, sin = tables(size=size)
        expected = rotated(x, positions, interleaved, size)
        inputs, attributes = {"x": x if rank == 4 else merged(x)}, {"interleaved": int(interleaved)}
        if rank == 3:
            attributes["num_heads"] = HEADS
        if size != head:
            attributes["rotary_embedding_dim"] = size
        if looked_up:
            inputs["positions"] = positions
        else:
            cos, sin = cos[positions], sin[positions]
        net = Net(**inputs)
        net.RotaryEmbedding("x", cos, sin, *(["positions"] if looked_up else []), **attributes)
        return net.finish(23, merged(expected) if rank == 3 else expected, **(ops or {"rope": 1}))
    return make


def ms_rotary(whole):
    """whole: a position for each token, or the first one's alone."""
    def make():
        x = floats(48, BATCH, HEADS, TOKENS, HEAD)
        places = np.tile(np.arange(TOKENS) + 3, (BATCH, 1))
        cos, sin = tables()
        net = Net(x=merged(x), positions=places if whole else ints(3))
        net.RotaryEmbedding("x", "positions", cos, sin, domain=MS, interleaved=1)
        return net.finish(17, merged(rotated(x, places, True)), rope=1, **({} if whole else {"add": 1}))
    return make


def ms_attention(masked, unidirectional):
    def make():
        x, weight, bias = floats(49, BATCH, TOKENS, WIDTH), floats(50, WIDTH, 3 * WIDTH) * 0.3, floats(51, 3 * WIDTH)
        mask = np.ones((BATCH, TOKENS), np.int32)
        mask[0, 3:] = 0
        q, k, v = (heads(t, HEADS) for t in np.split(x.astype(np.float64) @ weight + bias, 3, -1))
        added = (1.0 - mask[:, None, None, :]) * -10000.0 if masked else None
        expected = attended(q, k, v, mask=added, causal=unidirectional)[0]
        net = Net(x=x, **({"mask": mask} if masked else {}))
        net.Attention("x", weight, bias, *(["mask"] if masked else []), domain=MS, num_heads=HEADS,
                      unidirectional=int(unidirectional))
        return net.finish(17, merged(expected), matmul=1, attention=1, **({"affine": 1} if masked else {}))
    return make


def multi_head_attention():
    """Of other keys, with biases, padding, something added to the scores and earlier keys."""
    q, k, v = operands(keys=KEYS)
    bias, added = floats(52, 3 * WIDTH), floats(53, 1, HEADS, TOKENS, KEYS + 2)
    past_key, past_value = floats(54, BATCH, HEADS, 2, HEAD), floats(55, BATCH, HEADS, 2, HEAD)
    mask = np.ones((BATCH, KEYS + 2), np.int32)
    mask[1, 6:] = 0
    parts = [heads(merged(t) + b, HEADS) for t, b in zip((q, k, v), np.split(bias, 3))]
    keys, values = np.concatenate([past_key, parts[1]], 2), np.concatenate([past_value, parts[2]], 2)
    y = attended(parts[0], keys, values, scale=0.3, mask=added + (1.0 - mask[:, None, None, :]) * -10000.0)[0]
    net = Net(q=merged(q), k=merged(k), v=merged(v), mask=mask, added=added, past_key=past_key, past_value=past_value)
    net.MultiHeadAttention("q", "k", "v", bias, "mask", "added", "past_key", "past_value", domain=MS, num_heads=HEADS,
                           scale=0.3, outputs=["y", "keys", "values"])
    return net.finish(17, {"y": merged(y), "keys": keys, "values": values}, add=4, affine=1, attention=1)


def group_query_attention(packed, window=-1):
    def make():
        q, k, v = operands(key_heads=1)
        positions = np.tile(np.arange(TOKENS), (BATCH, 1))
        y = attended(rotated(q, positions), rotated(k, positions), v, causal=True, softcap=2.0, window=max(window, 0))[0]
        parts = {"q": merged(q), "k": merged(k), "v": merged(v)}
        inputs = {"qkv": np.concatenate(list(parts.values()), -1)} if packed else parts
        net = Net(**inputs)
        net.GroupQueryAttention(*(["qkv", None, None] if packed else ["q", "k", "v"]), None, None,
                                np.full(BATCH, TOKENS - 1, np.int32), np.array(TOKENS, np.int32), *tables(), domain=MS,
                                num_heads=HEADS, kv_num_heads=1, do_rotary=1, softcap=2.0, local_window_size=window)
        return net.finish(17, merged(y), rope=2, attention=1)
    return make


def skip_layer_norm(simplified):
    def make():
        x, skip, bias = floats(56, BATCH, TOKENS, WIDTH), floats(57, BATCH, TOKENS, WIDTH), floats(58, WIDTH)
        weight, shift = floats(59, WIDTH, low=0.5), floats(60, WIDTH)
        total = (x + skip + bias).astype(np.float64)
        net = Net(x=x, skip=skip)
        if simplified:
            net.SkipSimplifiedLayerNormalization("x", "skip", weight, bias, domain=MS, epsilon=1e-5, outputs=["y", "", "", "sum"])
            y = total / np.sqrt((total ** 2).mean(-1, keepdims=True) + 1e-5) * weight
        else:
            net.SkipLayerNormalization("x", "skip", weight, shift, bias, domain=MS, epsilon=1e-5, outputs=["y", "", "", "sum"])
            y = layer_norm(total, weight, shift, 1e-5)
        return net.finish(17, {"y": y, "sum": total}, add=2, **{"rms_norm" if simplified else "layer_norm": 1})
    return make


def simplified_layer_norm():
    x, weight = floats(61, BATCH, TOKENS, WIDTH), floats(62, WIDTH, low=0.5)
    net = Net(x=x)
    net.SimplifiedLayerNormalization("x", weight, axis=-1, epsilon=1e-5)
    return net.finish(17, x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * weight, rms_norm=1)


def fused(op, function, ops, bias=True, **attributes):
    def make():
        x, added = floats(63, BATCH, TOKENS, WIDTH), floats(64, WIDTH)
        net = Net(x=x)
        getattr(net, op)("x", *([added] if bias else []), domain=MS, **attributes)
        return net.finish(17, function((x + added if bias else x).astype(np.float64)), **dict.fromkeys(ops, 1))
    return make


def fused_matmul():
    a, b = floats(65, BATCH, WIDTH, TOKENS), floats(66, BATCH, 8, WIDTH)
    net = Net(a=a, b=b)
    net.FusedMatMul("a", "b", domain=MS, alpha=0.5, transA=1, transB=1)
    return net.finish(17, 0.5 * a.astype(np.float64).swapaxes(1, 2) @ b.swapaxes(1, 2), matmul=1, affine=1)


def seen_by_all_but(*hidden):
    mask = np.ones((BATCH, 1, TOKENS, TOKENS), bool)
    for place in hidden:
        mask[place] = False
    return mask


PATTERNS = {
    "attention_node": attention(),
    "attention_node_causal": attention(is_causal=1),
    "attention_node_grouped": attention(key_heads=1, is_causal=1, scale=0.7),
    "attention_node_rank_3": attention(3, key_heads=1, is_causal=1),
    "attention_node_rank_3_cross": attention(3, keys=KEYS),
    "attention_node_mask": attention(mask=(TOKENS, TOKENS)),
    "attention_node_mask_of_heads": attention(mask=(HEADS, 1, TOKENS)),
    "attention_node_mask_causal": attention(mask=(BATCH, 1, 1, TOKENS), is_causal=1),
    "attention_node_boolean": attention(mask=seen_by_all_but((0, 0, 1, 2), (1, 0, 3, 0)), ops={"attention": 1, "affine": 1}),
    "attention_node_softcap": attention(is_causal=1, softcap=1.5),
    # Query 0 sees key 0, although there are more keys: the op would align the last ones.
    "attention_node_causal_cross": attention(keys=KEYS, is_causal=1),
    # The op's values are as wide as its keys.
    "attention_node_value_head": attention(value_head=6, key_heads=1, ops={"matmul": 2, "affine": 1, "softmax": 1}),
    "attention_node_past": attention_past(4),
    "attention_node_past_rank_3": attention_past(3),
    "attention_node_scores": attention_scores(0),
    "attention_node_weights": attention_scores(3),
    "attention_node_lengths": attention_lengths,
    "rotary_node": rotary(),
    "rotary_node_interleaved": rotary(interleaved=True),
    "rotary_node_rank_3": rotary(rank=3),
    "rotary_node_partial": rotary(size=4, head=6),
    "rotary_node_partial_interleaved": rotary(interleaved=True, rank=3, size=4, head=6),
    # Tables that begin elsewhere than at position 0 say nothing about positions.
    "rotary_node_tables": rotary(looked_up=False, ops={"mul": 4, "sub": 1, "add": 1}),
    "ms_rotary": ms_rotary(True),
    "ms_rotary_offset": ms_rotary(False),
    "ms_attention": ms_attention(False, False),
    "ms_attention_causal": ms_attention(False, True),
    "ms_attention_mask": ms_attention(True, False),
    "ms_multi_head_attention": multi_head_attention,
    "ms_group_query_attention": group_query_attention(False),
    "ms_group_query_attention_packed": group_query_attention(True, window=2),
    "ms_skip_layer_norm": skip_layer_norm(False),
    "ms_skip_rms_norm": skip_layer_norm(True),
    "ms_rms_norm": simplified_layer_norm,
    "ms_gelu": fused("Gelu", gelu, ["gelu"], bias=False),
    "ms_bias_gelu": fused("BiasGelu", gelu, ["add", "gelu"]),
    "ms_fast_gelu": fused("FastGelu", gelu_tanh, ["add", "gelu"]),
    "ms_quick_gelu": fused("QuickGelu", lambda x: x / (1 + np.exp(-1.702 * x)), ["affine", "sigmoid", "mul"], bias=False,
                           alpha=1.702),
    "ms_fused_matmul": fused_matmul,
}
