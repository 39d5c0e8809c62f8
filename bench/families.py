"""Makes encoders of DeBERTa v3's (base) and EmbeddingGemma's shapes, with two layers and the same random weights in heed's and onnxruntime's formats.

    build/bench/deberta/    config.json, model.safetensors, onnx/ with four graphs as in models.py
    build/bench/gemma/

The plain graph of DeBERTa has the operators to which its published code is exported (transformers' modeling_deberta_v2.py), with what depends on weights only computed ahead;
that of EmbeddingGemma has the operators of its published code, with onnxruntime's norm. The fused graphs have the operators that published exports of such decoders contain
(RotaryEmbedding, MultiHeadAttention, SkipSimplifiedLayerNormalization), or for DeBERTa, BERT's; its attention is then broadcast over the texts instead of tiled.
int8 is dynamic quantization of all products with weights, as onnxruntime's quantize_dynamic does by default.

Run with a Python that has numpy and onnx:  python3 families.py OUT_DIR
Letters: N texts, L tokens, E width, H heads, D width of a head, F feed-forward width, B buckets.
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto

from models import MS, Graph, save_graphs, write_safetensors

LAYERS, E, VOCAB = 2, 768, 8000
LOWEST = np.float32(np.finfo(np.float32).min)


def int64(*values):
    return np.array(values, np.int64)


class Draws:
    def __init__(self, seed=0):
        self.rng, self.w = np.random.default_rng(seed), {}

    def tensor(self, name, *shape, std=0.04, mean=0):
        self.w[name] = (mean + self.rng.normal(0, std, shape)).astype(np.float32)

    def linear(self, name, out, inputs, bias=True):
        self.tensor(f"{name}.weight", out, inputs)
        if bias:
            self.tensor(f"{name}.bias", out)

    def norm(self, name, width=E):
        self.tensor(f"{name}.weight", width, mean=1)
        self.tensor(f"{name}.bias", width)


class FamilyGraph(Graph):
    def reshape(self, x, *shape):
        return self.op("Reshape", x, self.const(f"shape{list(shape)}", int64(*shape)))

    def heads(self, x, count, perm=(0, 2, 1, 3)):
        """(N, L, E) -> (N, H, L, D), or in another order of axes"""
        return self.op("Transpose", self.reshape(x, 0, 0, count, -1), perm=list(perm))

    def joined(self, x):
        """(N, H, L, D) -> (N, L, E)"""
        return self.reshape(self.op("Transpose", x, perm=[0, 2, 1, 3]), 0, 0, -1)

    def distances(self):
        """i - j, (L, L)"""
        length = self.op("Gather", self.op("Shape", "input_ids"), self.const("axis1", np.int64(1)))
        places = self.op("Range", self.const("first", np.int64(0)), length, self.const("step", np.int64(1)))
        return self.op("Sub", self.op("Unsqueeze", places, self.const("axes1", int64(1))), self.op("Unsqueeze", places, self.const("axes0", int64(0))))


# DeBERTa v3, base


class Deberta(FamilyGraph):
    H, D, F, B, DISTANCE = 12, 64, 3072, 256, 512
    eps = 1e-7
    config = {
        "architectures": ["DebertaV2Model"], "model_type": "deberta-v2", "attention_head_size": 64, "hidden_act": "gelu", "hidden_size": E, "intermediate_size": F,
        "layer_norm_eps": eps, "max_position_embeddings": DISTANCE, "max_relative_positions": -1, "norm_rel_ebd": "layer_norm", "num_attention_heads": H,
        "num_hidden_layers": LAYERS, "pad_token_id": 0, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "position_buckets": B, "relative_attention": True,
        "share_att_key": True, "type_vocab_size": 0, "vocab_size": VOCAB,
    }

    @classmethod
    def weights(cls):
        d = Draws()
        d.tensor("embeddings.word_embeddings.weight", VOCAB, E)
        d.norm("embeddings.LayerNorm")
        d.tensor("encoder.rel_embeddings.weight", 2 * cls.B, E)
        d.norm("encoder.LayerNorm")
        for i in range(LAYERS):
            p = f"encoder.layer.{i}"
            for name in ("query_proj", "key_proj", "value_proj"):
                d.linear(f"{p}.attention.self.{name}", E, E)
            d.linear(f"{p}.attention.output.dense", E, E)
            d.norm(f"{p}.attention.output.LayerNorm")
            d.linear(f"{p}.intermediate.dense", cls.F, E)
            d.linear(f"{p}.output.dense", E, cls.F)
            d.norm(f"{p}.output.LayerNorm")
        return d.w

    def relative_positions(self):
        """make_log_bucket_position: distances up to B / 2 as they are, larger ones in logarithmic buckets. (L, L) int64"""
        distance = self.op("Cast", self.distances(), to=TensorProto.FLOAT)
        sign, size = self.op("Sign", distance), self.op("Abs", distance)
        middle = self.const("middle", np.float32(self.B // 2))
        near = self.op("Less", size, middle)
        bounded = self.op("Where", near, self.const("middle_1", np.float32(self.B // 2 - 1)), size)
        whole = self.const("log_whole", np.float32(np.log(np.float32((self.DISTANCE - 1) / (self.B // 2)))))
        steps = self.op("Mul", self.op("Div", self.op("Log", self.op("Div", bounded, middle)), whole), self.const("middle_1", np.float32(self.B // 2 - 1)))
        far = self.op("Mul", self.op("Add", self.op("Ceil", steps), middle), sign)
        position = self.op("Where", self.op("LessOrEqual", bounded, middle), distance, far)
        return self.op("Cast", position, to=TensorProto.INT64)

    def index(self, positions):
        most = self.const("last_row", np.int64(2 * self.B - 1))
        return self.op("Min", self.op("Max", self.op("Add", positions, self.const("buckets", np.int64(self.B))), self.const("first", np.int64(0))), most)

    def position_rows(self, name, relative):
        """The rows of the normalized table through a projection: (H, 2 B, D), computed ahead."""
        rows = relative @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]
        return rows.reshape(2 * self.B, self.H, self.D).transpose(1, 0, 2)

    def attention(self, x, p):
        p, root = f"{p}.attention.self", self.const("root", np.float32((3 * self.D) ** 0.5))
        q, k, v = (self.heads(self.linear(x, f"{p}.{name}"), self.H) for name in ("query_proj", "key_proj", "value_proj"))
        pk, pq = (self.position_rows(f"{p}.{name}", self.relative).transpose(0, 2, 1) for name in ("key_proj", "query_proj"))
        pk, pq = self.const(f"{p}.position_keys", pk), self.const(f"{p}.position_queries", pq)
        if self.fused:  # everything (N, H, ...)
            shape = self.op("Concat", self.batch, self.const("heads1", int64(self.H)), self.length, self.length, axis=0)
        else:  # everything (N H, ...), as the published code has it
            q, k, v = (self.flat(t) for t in (q, k, v))
            repeats = self.op("Concat", self.batch, self.const("ones2", int64(1, 1)), axis=0)
            pk, pq = (self.op("Tile", t, repeats) for t in (pk, pq))
            shape = self.op("Concat", self.op("Mul", self.batch, self.const("heads1", int64(self.H))), self.length, self.length, axis=0)
        last, swap = (3, [0, 1, 3, 2]) if self.fused else (2, [0, 2, 1])
        transposed = lambda t: self.op("Transpose", t, perm=swap)
        gathered = lambda terms, rows: self.op("GatherElements", terms, self.op("Expand", rows, shape), axis=last)
        scores = self.op("Div", self.op("MatMul", q, transposed(k)), root)
        c2p = self.op("Div", gathered(self.op("MatMul", q, pk), self.c2p), root)
        p2c = self.op("Div", transposed(gathered(self.op("MatMul", k, pq), self.p2c)), root)
        scores = self.op("Add", scores, self.op("Add", c2p, p2c))
        if not self.fused:
            scores = self.by_text(scores, self.length)
        rows = self.op("Softmax", self.op("Where", self.pairs, scores, self.const("lowest", LOWEST)), axis=-1)
        if not self.fused:
            rows = self.flat(rows)
        mixed = self.op("MatMul", rows, v)
        return self.joined(mixed if self.fused else self.by_text(mixed, self.const("head_width", int64(self.D))))

    def flat(self, t):
        """(N, H, a, b) -> (N H, a, b)"""
        shape = self.op("Shape", t)
        tail = self.op("Slice", shape, self.const("two", int64(2)), self.const("four", int64(4)))
        return self.op("Reshape", t, self.op("Concat", self.const("rest", int64(-1)), tail, axis=0))

    def by_text(self, t, width):
        """(N H, L, b) -> (N, H, L, b)"""
        return self.op("Reshape", t, self.op("Concat", self.const("rest", int64(-1)), self.const("heads1", int64(self.H)), self.length, width, axis=0))

    def build(self):
        table = self.w["encoder.rel_embeddings.weight"]
        centred = table - table.mean(axis=1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + self.eps)
        self.relative = unit * self.w["encoder.LayerNorm.weight"] + self.w["encoder.LayerNorm.bias"]
        shape = self.op("Shape", "input_ids")
        self.batch = self.op("Gather", shape, self.const("index0", int64(0)))
        self.length = self.op("Gather", shape, self.const("index1", int64(1)))
        positions = self.relative_positions()
        self.c2p, self.p2c = self.index(positions), self.index(self.op("Neg", positions))
        real = self.op("Cast", "attention_mask", to=TensorProto.BOOL)
        along = lambda axes: self.op("Unsqueeze", real, self.const(f"axes{axes}", int64(*axes)))
        self.pairs = self.op("And", along([1, 2]), along([1, 3]))
        x = self.norm(self.gather("embeddings.word_embeddings.weight", "input_ids"), "embeddings.LayerNorm")
        mask = self.op("Cast", self.op("Unsqueeze", "attention_mask", self.const("axis2", int64(2))), to=TensorProto.FLOAT)
        x = self.op("Mul", x, mask)
        for i in range(LAYERS):
            p = f"encoder.layer.{i}"
            a = self.skip_norm(self.attention(x, p), x, f"{p}.attention.output.dense", f"{p}.attention.output.LayerNorm")
            x = self.skip_norm(self.gelu_linear(a, f"{p}.intermediate.dense"), a, f"{p}.output.dense", f"{p}.output.LayerNorm")
        return self.finish(x, E, ["input_ids", "attention_mask"])


# EmbeddingGemma: one head of keys and values for three of queries, RMSNorm, rotary positions


class Gemma(FamilyGraph):
    H, D, F, POSITIONS, WINDOW = 3, 256, 1152, 2048, 512
    eps = 1e-6
    KINDS = ["sliding_attention", "full_attention"]
    BASES = {"sliding_attention": 10000.0, "full_attention": 1e6}
    config = {
        "architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", "attention_bias": False, "head_dim": D, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": E,
        "intermediate_size": F, "layer_types": KINDS, "max_position_embeddings": POSITIONS, "num_attention_heads": H, "num_hidden_layers": LAYERS, "num_key_value_heads": 1,
        "pad_token_id": 0, "query_pre_attn_scalar": D, "rms_norm_eps": eps, "rope_local_base_freq": 10000, "rope_theta": 1000000, "sliding_window": WINDOW,
        "use_bidirectional_attention": True, "vocab_size": VOCAB,
    }

    @classmethod
    def weights(cls):
        d = Draws()
        d.tensor("embed_tokens.weight", VOCAB, E)
        d.tensor("norm.weight", E)
        for i in range(LAYERS):
            p = f"layers.{i}"
            for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
                d.tensor(f"{p}.{name}.weight", E)
            d.linear(f"{p}.self_attn.q_proj", cls.H * cls.D, E, bias=False)
            d.linear(f"{p}.self_attn.k_proj", cls.D, E, bias=False)
            d.linear(f"{p}.self_attn.v_proj", cls.D, E, bias=False)
            d.linear(f"{p}.self_attn.o_proj", E, cls.H * cls.D, bias=False)
            d.tensor(f"{p}.self_attn.q_norm.weight", cls.D)
            d.tensor(f"{p}.self_attn.k_norm.weight", cls.D)
            d.linear(f"{p}.mlp.gate_proj", cls.F, E, bias=False)
            d.linear(f"{p}.mlp.up_proj", cls.F, E, bias=False)
            d.linear(f"{p}.mlp.down_proj", E, cls.F, bias=False)
        return d.w

    def gain(self, name):
        """Gemma's weights of norms are relative to one."""
        return self.const(f"{name}.gain", 1 + self.w[f"{name}.weight"])

    def rms(self, x, name):
        return self.op("SimplifiedLayerNormalization", x, self.gain(name), axis=-1, epsilon=self.eps, stash_type=1)

    def angles(self, kind):
        inverse = self.BASES[kind] ** (-np.arange(0, self.D, 2) / self.D)
        angles = np.outer(np.arange(self.POSITIONS), inverse)
        return [self.const(f"{kind}.{name}", f(angles).astype(np.float32)) for name, f in (("cos", np.cos), ("sin", np.sin))]

    def rotated(self, x, kind):
        """x (N, H, L, D): x cos + (-x2, x1) sin"""
        half = self.D // 2
        tables = [self.op("Gather", t, self.places) for t in self.angles(kind)]  # (L, D / 2)
        cos, sin = (self.op("Concat", t, t, axis=-1) for t in tables)
        part = lambda a, b: self.op("Slice", x, self.const(f"at{a}", int64(a)), self.const(f"at{b}", int64(b)), self.const("last_axis", int64(3)))
        turned = self.op("Concat", self.op("Neg", part(half, self.D)), part(0, half), axis=-1)
        return self.op("Add", self.op("Mul", x, cos), self.op("Mul", turned, sin))

    def attention(self, x, p, kind):
        p = f"{p}.self_attn"
        project = lambda name: self.product(x, f"{p}.{name}_proj")
        by_head = lambda t, heads: self.reshape(t, 0, 0, heads, self.D)
        q, k = (self.rms(by_head(project(name), heads), f"{p}.{name}_norm") for name, heads in (("q", self.H), ("k", 1)))
        v, scale = project("v"), self.D**-0.5
        if self.fused:
            cos, sin = self.angles(kind)
            q, k = (self.op("RotaryEmbedding", self.reshape(t, 0, 0, -1), self.positions, cos, sin, domain=MS) for t in (q, k))
            k, v = (self.op("Concat", *[t] * self.H, axis=-1) for t in (k, v))
            mixed = self.op("MultiHeadAttention", q, k, v, "", "", self.bias[kind], domain=MS, num_heads=self.H, scale=scale)
        else:
            q, k = (self.rotated(self.op("Transpose", t, perm=[0, 2, 1, 3]), kind) for t in (q, k))
            shape = self.op("Concat", self.batch, self.const("heads1", int64(self.H)), self.length, self.const("width1", int64(self.D)), axis=0)
            k, v = (self.op("Expand", t, shape) for t in (k, self.heads(v, 1)))
            scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), self.const("scale", np.float32(scale)))
            mixed = self.joined(self.op("MatMul", self.op("Softmax", self.op("Add", scores, self.bias[kind]), axis=-1), v))
        return self.product(mixed, f"{p}.o_proj")

    def gelu(self, x):
        if self.fused:
            return self.op("FastGelu", x, domain=MS)
        cubic = self.op("Mul", self.op("Pow", x, self.const("three", np.float32(3))), self.const("cubic", np.float32(0.044715)))
        inner = self.op("Tanh", self.op("Mul", self.op("Add", x, cubic), self.const("root2pi", np.float32((2 / np.pi) ** 0.5))))
        return self.op("Mul", self.op("Mul", x, self.const("half", np.float32(0.5))), self.op("Add", inner, self.const("one", np.float32(1))))

    def skip_rms(self, x, branch, name):
        """x + branch, and its norm"""
        if self.fused:
            normed, _, _, total = self.op("SkipSimplifiedLayerNormalization", x, branch, self.gain(name), outputs=4, domain=MS, epsilon=self.eps)
            return total, normed
        total = self.op("Add", x, branch)
        return total, self.rms(total, name)

    def biases(self):
        mask = self.op("Cast", self.op("Unsqueeze", "attention_mask", self.const("axes12", int64(1, 2))), to=TensorProto.FLOAT)
        hidden = self.op("Mul", self.op("Sub", self.const("one", np.float32(1)), mask), self.const("lowest", LOWEST))  # (N, 1, 1, L)
        square = self.op("Concat", self.batch, self.const("one1", int64(1)), self.length, self.length, axis=0)
        far = self.op("Greater", self.op("Abs", self.distances()), self.const("radius", np.int64(self.WINDOW // 2)))
        return {
            "full_attention": self.op("Expand", hidden, square),
            "sliding_attention": self.op("Where", far, self.const("lowest", LOWEST), hidden),
        }

    def build(self):
        shape = self.op("Shape", "input_ids")
        self.batch = self.op("Gather", shape, self.const("index0", int64(0)))
        self.length = self.op("Gather", shape, self.const("index1", int64(1)))
        length = self.op("Squeeze", self.length)
        self.places = self.op("Range", self.const("first", np.int64(0)), length, self.const("step", np.int64(1)))
        rows = self.op("Concat", self.batch, self.length, axis=0)
        self.positions = self.op("Expand", self.op("Unsqueeze", self.places, self.const("axes0", int64(0))), rows)
        self.bias = self.biases()
        x = self.op("Mul", self.gather("embed_tokens.weight", "input_ids"), self.const("root_e", np.float32(E**0.5)))
        normed = self.rms(x, "layers.0.input_layernorm")
        for i, kind in enumerate(self.KINDS):
            p = f"layers.{i}"
            x, normed = self.skip_rms(x, self.rms(self.attention(normed, p, kind), f"{p}.post_attention_layernorm"), f"{p}.pre_feedforward_layernorm")
            gate = self.gelu(self.product(normed, f"{p}.mlp.gate_proj"))
            inner = self.product(self.op("Mul", gate, self.product(normed, f"{p}.mlp.up_proj")), f"{p}.mlp.down_proj")
            following = f"layers.{i + 1}.input_layernorm" if i + 1 < LAYERS else "norm"
            x, normed = self.skip_rms(x, self.rms(inner, f"{p}.post_feedforward_layernorm"), following)
        return self.finish(normed, E, ["input_ids", "attention_mask"])


def main(folder):
    for name, kind in (("deberta", Deberta), ("gemma", Gemma)):
        out = Path(folder) / name
        (out / "onnx").mkdir(parents=True, exist_ok=True)
        (out / "config.json").write_text(json.dumps(kind.config, indent=2))
        w = kind.weights()
        write_safetensors(out / "model.safetensors", w)
        save_graphs(kind, w, out)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/bench")
