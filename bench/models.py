"""Makes the MiniLM-shaped encoder that every library in this bench runs, with the same random weights in each one's format.

    build/bench/minilm/   config.json, model.safetensors                 heed, tfjs
                          onnx/model.onnx                                fp32, the graph that PyTorch exports
                          onnx/model_fused.onnx                          fp32, onnxruntime's fused operators
                          onnx/model_quantized.onnx                      int8, dynamic quantization as transformers.js's default (q8)
                          onnx/model_quantized_fused.onnx                int8, onnxruntime's fused operators

Run with a Python that has numpy and onnx:  python3 bench/models.py OUT_DIR
Letters: N texts, L tokens, E width, H heads, F feed-forward width.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

LAYERS, E, H, F, VOCAB, POSITIONS = 6, 384, 12, 1536, 30522, 512
EPS = 1e-12
MS = "com.microsoft"


def weights(seed=0):
    """BERT's parameters under their Hugging Face names, drawn so that attention is neither flat nor one-hot."""
    rng = np.random.default_rng(seed)

    def normal(*shape, std=0.06):
        return rng.normal(0, std, shape).astype(np.float32)

    w = {
        "embeddings.word_embeddings.weight": normal(VOCAB, E),
        "embeddings.position_embeddings.weight": normal(POSITIONS, E),
        "embeddings.token_type_embeddings.weight": normal(2, E),
    }

    def norm(name):
        w[f"{name}.weight"] = 1 + normal(E)
        w[f"{name}.bias"] = normal(E)

    norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        p = f"encoder.layer.{i}"
        for name, out, inp in [
            ("attention.self.query", E, E),
            ("attention.self.key", E, E),
            ("attention.self.value", E, E),
            ("attention.output.dense", E, E),
            ("intermediate.dense", F, E),
            ("output.dense", E, F),
        ]:
            w[f"{p}.{name}.weight"] = normal(out, inp)
            w[f"{p}.{name}.bias"] = normal(out)
        norm(f"{p}.attention.output.LayerNorm")
        norm(f"{p}.output.LayerNorm")
    return w


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.tobytes())


class Graph:
    """Collects nodes and initializers; `op` returns the name of its first output."""

    eps = EPS

    def __init__(self, w, fused, quantized):
        self.w, self.fused, self.quantized = w, fused, quantized
        self.nodes, self.inits, self.known, self.count = [], [], set(), 0

    def op(self, kind, *inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"{kind}_{self.count}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def const(self, name, value):
        if name not in self.known:
            self.known.add(name)
            self.inits.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def param(self, name):
        return self.const(name, self.w[name])

    def quantize_weight(self, name, matrix):
        """int8 symmetric per output column: matrix (in, out) -> names of (q, scale, zero point)."""
        scale = (np.abs(matrix).max(axis=0) / 127).astype(np.float32)
        q = np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8)
        zero = np.zeros_like(scale, dtype=np.int8)
        return self.const(f"{name}.q", q), self.const(f"{name}.scale", scale), self.const(f"{name}.zero", zero)

    def product(self, x, name):
        """x W^T, without the bias."""
        matrix = self.w[f"{name}.weight"].T
        if not self.quantized:
            return self.op("MatMul", x, self.const(f"{name}.matrix", matrix))
        q, scale, zero = self.quantize_weight(name, matrix)
        if self.fused:
            return self.op("DynamicQuantizeMatMul", x, q, scale, zero, domain=MS)
        xq, x_scale, x_zero = self.op("DynamicQuantizeLinear", x, outputs=3)
        y = self.op("Cast", self.op("MatMulInteger", xq, q, x_zero, zero), to=TensorProto.FLOAT)
        return self.op("Mul", y, self.op("Mul", x_scale, scale))

    def linear(self, x, name):
        return self.op("Add", self.product(x, name), self.param(f"{name}.bias"))

    def norm(self, x, name):
        return self.op("LayerNormalization", x, self.param(f"{name}.weight"), self.param(f"{name}.bias"), axis=-1, epsilon=self.eps)

    def skip_norm(self, x, skip, dense, name):
        """LN(x W^T + b + skip)"""
        if self.fused:
            return self.op(
                "SkipLayerNormalization", self.product(x, dense), skip,
                self.param(f"{name}.weight"), self.param(f"{name}.bias"), self.param(f"{dense}.bias"),
                domain=MS, epsilon=self.eps,
            )
        return self.norm(self.op("Add", self.linear(x, dense), skip), name)

    def gather(self, table, ids):
        if not self.quantized:
            return self.op("Gather", self.param(table), ids)
        t = self.w[table]
        scale = np.float32(np.abs(t).max() / 127)
        q = self.const(f"{table}.q", np.clip(np.rint(t / scale), -127, 127).astype(np.int8))
        return self.op("DequantizeLinear", self.op("Gather", q, ids), self.const(f"{table}.scale", scale), self.const(f"{table}.zero", np.int8(0)))

    def attention(self, x, p):
        p = f"{p}.attention.self"
        if self.fused:
            matrix = np.concatenate([self.w[f"{p}.{k}.weight"].T for k in ("query", "key", "value")], axis=1)
            bias = self.const(f"{p}.bias", np.concatenate([self.w[f"{p}.{k}.bias"] for k in ("query", "key", "value")]))
            if not self.quantized:
                return self.op("Attention", x, self.const(f"{p}.matrix", matrix), bias, "mask32", domain=MS, num_heads=H)
            q, scale, zero = self.quantize_weight(p, matrix)
            xq, x_scale, x_zero = self.op("DynamicQuantizeLinear", x, outputs=3)
            return self.op("QAttention", xq, q, bias, x_scale, scale, "mask32", x_zero, zero, domain=MS, num_heads=H)

        def heads(name, perm):
            split = self.op("Reshape", self.linear(x, f"{p}.{name}"), self.const("split", np.array([0, 0, H, E // H], np.int64)))
            return self.op("Transpose", split, perm=perm)

        scores = self.op("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
        scores = self.op("Div", scores, self.const("sqrt_d", np.float32((E // H) ** 0.5)))
        rows = self.op("Softmax", self.op("Add", scores, "mask_bias"), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", rows, heads("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        return self.op("Reshape", mixed, self.const("join", np.array([0, 0, E], np.int64)))

    def layer(self, x, i):
        p = f"encoder.layer.{i}"
        a = self.skip_norm(self.attention(x, p), x, f"{p}.attention.output.dense", f"{p}.attention.output.LayerNorm")
        return self.skip_norm(self.gelu_linear(a, f"{p}.intermediate.dense"), a, f"{p}.output.dense", f"{p}.output.LayerNorm")

    def gelu_linear(self, x, name):
        """GELU(x W^T + b)"""
        if self.fused:
            return self.op("BiasGelu", self.product(x, name), self.param(f"{name}.bias"), domain=MS)
        z = self.linear(x, name)
        erf = self.op("Erf", self.op("Div", z, self.const("sqrt2", np.float32(2**0.5))))
        return self.op("Mul", self.op("Mul", z, self.op("Add", erf, self.const("one", np.float32(1)))), self.const("half", np.float32(0.5)))

    def build(self):
        if self.fused:
            self.nodes.append(helper.make_node("Cast", ["attention_mask"], ["mask32"], to=TensorProto.INT32))
        else:
            mask = self.op("Unsqueeze", self.op("Cast", "attention_mask", to=TensorProto.FLOAT), self.const("axes", np.array([1, 2], np.int64)))
            inverse = self.op("Sub", self.const("one", np.float32(1)), mask)
            self.nodes.append(helper.make_node("Mul", [inverse, self.const("lowest", np.float32(np.finfo(np.float32).min))], ["mask_bias"]))
        length = self.op("Gather", self.op("Shape", "input_ids"), self.const("axis1", np.int64(1)))
        positions = self.op("Range", self.const("zero", np.int64(0)), length, self.const("step", np.int64(1)))
        x = self.op("Add", self.gather("embeddings.word_embeddings.weight", "input_ids"), self.gather("embeddings.token_type_embeddings.weight", "token_type_ids"))
        x = self.norm(self.op("Add", x, self.gather("embeddings.position_embeddings.weight", positions)), "embeddings.LayerNorm")
        for i in range(LAYERS):
            x = self.layer(x, i)
        return self.finish(x, E, ["input_ids", "attention_mask", "token_type_ids"])

    def finish(self, x, width, inputs):
        """The model whose output is x (N, L, width)."""
        self.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
        ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["N", "L"]) for n in inputs]
        out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["N", "L", width])
        graph = helper.make_graph(self.nodes, "encoder", ids, [out], self.inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)])
        model.ir_version = 8
        if not any(node.domain == MS or node.op_type == "SimplifiedLayerNormalization" for node in self.nodes):
            checker.check_model(model)
        return model


def save_graphs(kind, w, folder):
    """Writes the four graphs of a subclass of Graph."""
    for name, fused, quantized in [("model", False, False), ("model_fused", True, False), ("model_quantized", False, True), ("model_quantized_fused", True, True)]:
        path = folder / "onnx" / f"{name}.onnx"
        save(kind(w, fused, quantized).build(), str(path))
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def main(folder):
    folder = Path(folder)
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": E, "intermediate_size": F,
        "layer_norm_eps": EPS, "max_position_embeddings": POSITIONS, "num_attention_heads": H, "num_hidden_layers": LAYERS,
        "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": VOCAB,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    w = weights()
    write_safetensors(folder / "model.safetensors", w)
    save_graphs(Graph, w, folder)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/bench/minilm")
