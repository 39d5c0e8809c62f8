#!/usr/bin/env python3
"""Writes a checkpoint of train.py as a model folder: Hugging Face's BERT layout with sentence-transformers' files.

--dtype int8 (what heed ships) stores each matrix `X.weight` as I8 with `X.weight_scale` F32 [rows,1]: value = int8 *
scale, symmetric, one scale for each output channel of a linear layer and for each row of an embedding. This is the
layout that compressed-tensors calls int-quantized. --dtype fp32 stores the weights as they were trained. Either way they are the
average that train.py keeps.
training.json says what the run was: the sha256 of its pairs.tsv, so that no one evaluates on what it was trained on.
"""

import argparse
import json
from pathlib import Path

import torch

import safetensors
import sources
from model import Bert, Config
from wordpiece import SPECIAL, tokenizer_json

QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "targets": ["Linear", "Embedding"],
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False},
        }
    },
    "ignore": [],
}


def quantize(weight: torch.Tensor, narrow: bool) -> tuple:
    """weight [rows, columns] -> int8 [rows, columns] and scale [rows,1] with weight ~ int8 * scale.

    `narrow` makes rows of a factor as PackedWeight makes them (cpp/src/gemm/weights/int8.cpp): of each 16 columns, the
    8 that are added up in 16 bits (pairs of every fourth) stay below 32767 / 127 in sum, unless that costs too much.
    """
    scale = weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
    if narrow:
        padded = torch.nn.functional.pad(weight, (0, -weight.shape[1] % 16)).view(len(weight), -1, 4, 2, 2)
        eights = torch.stack([sign.clamp_min(0).sum((2, 4)) for sign in (padded, -padded)])
        narrower = eights.amax((0, 2, 3))[:, None] / 254
        scale = torch.where(narrower > 2.5 * scale, scale, torch.maximum(scale, narrower))
    return (weight / scale).round().clamp(-127, 127).to(torch.int8), scale


def export(state: dict, vocabulary: list, out: Path, dtype: str) -> None:
    """state: what train.py saved. Fills the folder `out`."""
    config = Config(**state["config"])
    tensors = {}
    for name, value in state["average"].items():
        if dtype == "int8" and value.dim() == 2:
            tensors[name], tensors[name + "_scale"] = quantize(value, narrow="embeddings" not in name)
        else:
            tensors[name] = value
    length = config.max_position_embeddings
    files = {
        "config.json": config.huggingface() | ({"quantization_config": QUANTIZATION} if dtype == "int8" else {}),
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": True,
            "model_max_length": length,
            **{f"{piece[1:-1].lower()}_token": piece for piece in SPECIAL},
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "training.json": {"data": state["data"], "steps": state["step"], "minutes": round(state["seconds"] / 60, 1)},
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }
    (out / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=2) + "\n")
    (out / "tokenizer.json").write_text(tokenizer_json(vocabulary))
    safetensors.write(out / "model.safetensors", tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=sources.DATA)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--out", type=Path, default=sources.ROOT / "web" / "model")
    parser.add_argument("--dtype", choices=["int8", "fp32"], default="int8")
    options = parser.parse_args()
    path = options.data / options.checkpoint
    if not path.exists():
        raise SystemExit(f"export: {path} is missing: run tools/model/train.py first")
    export(torch.load(path), (options.data / "vocabulary.txt").read_text().splitlines(), options.out, options.dtype)
    size = sum(f.stat().st_size for f in options.out.rglob("*") if f.is_file())
    print(f"{options.out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
