"""A small BERT (Devlin et al. 2018) with a mean-pooled sentence vector; its parameters carry Hugging Face's names.

Texts are never padded: their tokens lie one after the other, sorted by length, so that products run over all of them at
once and attention runs over the texts of one length together.

Letters: T tokens of all texts, N texts, n texts of L tokens, E width, H heads.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from safetensors import read_model


@dataclass
class Config:
    vocab_size: int = 8192
    hidden_size: int = 256
    num_hidden_layers: int = 3
    num_attention_heads: int = 8
    intermediate_size: int = 1024
    max_position_embeddings: int = 128
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1

    def huggingface(self) -> dict:
        """This configuration as Hugging Face's BertModel keeps it in config.json."""
        fields = asdict(self)
        dropout = fields.pop("dropout")
        return {
            "architectures": ["BertModel"],
            "model_type": "bert",
            **fields,
            "hidden_act": "gelu",
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.02,
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
        }


class Bert(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear):
                    nn.init.zeros_(module.bias)

    def forward(self, ids: Tensor, positions: Tensor, groups: list) -> Tensor:
        """ids, positions [T] of texts in `groups` (n, L) -> each text's mean over its tokens [N,E]."""
        lengths = torch.cat([torch.full((n,), length) for n, length in groups])
        drop = TextDropout(self.config.dropout if self.training else 0.0, lengths, self.config.hidden_size)
        x = self.embeddings(ids, positions, drop)
        for layer in self.encoder["layer"]:
            x = layer(x, groups, drop)
        means = [part.view(n, length, -1).float().mean(1) for part, n, length in split(x, groups)]
        return torch.cat(means)


def read_folder(folder: Path) -> tuple:
    """A model folder that export.py wrote -> its encoder in fp32, and its vocabulary."""
    weights, vocabulary = read_model(folder)
    config = json.loads((folder / "config.json").read_text())
    model = Bert(Config(**{k: v for k, v in config.items() if k in Config.__dataclass_fields__}))
    model.load_state_dict(weights)
    return model, vocabulary


def split(x: Tensor, groups: list):
    """x [T, ...] -> for each group of texts of one length, its rows, n and L."""
    return [(part, *group) for part, group in zip(x.split([n * length for n, length in groups]), groups)]


class TextDropout:
    """Dropout whose mask is shared by the tokens of a text (Gal and Ghahramani 2016): a fraction of the draws."""

    def __init__(self, p: float, lengths: Tensor, width: int):
        self.p, self.lengths, self.width = p, lengths, width

    def __call__(self, x: Tensor) -> Tensor:
        if self.p == 0:
            return x
        keep = (torch.rand(len(self.lengths), self.width) >= self.p).to(x.dtype) / (1 - self.p)
        return x * keep.repeat_interleave(self.lengths, 0)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return LinearFunction.apply(x, self.weight, self.bias)


class LinearFunction(torch.autograd.Function):
    """nn.Linear, its bias's gradient as a product: summing rows of bfloat16 is slow in this PyTorch."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        ones = gradient.new_ones(1, len(gradient))
        return gradient @ weight, gradient.t() @ x, (ones @ gradient)[0]


class LayerNorm(nn.LayerNorm):
    """In fp32 whatever the input: more exact, and many times as fast here as bfloat16's."""

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps).to(x.dtype)


class Embeddings(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor, positions: Tensor, drop: TextDropout) -> Tensor:
        place = self.position_embeddings(positions) + self.token_type_embeddings.weight[0]
        return drop(self.LayerNorm(self.word_embeddings(ids) + place))


class Layer(nn.Module):
    """Post-norm encoder layer."""

    def __init__(self, config: Config):
        super().__init__()
        width = config.hidden_size
        norm = lambda: LayerNorm(width, eps=config.layer_norm_eps)
        self.num_heads = config.num_attention_heads
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict({name: Linear(width, width) for name in ("query", "key", "value")}),
                "output": nn.ModuleDict({"dense": Linear(width, width), "LayerNorm": norm()}),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": Linear(width, config.intermediate_size)})
        self.output = nn.ModuleDict({"dense": Linear(config.intermediate_size, width), "LayerNorm": norm()})

    def forward(self, x: Tensor, groups: list, drop: TextDropout) -> Tensor:
        """x [T,E] -> [T,E]"""
        attended = self.attention["output"]["dense"](self._attend(x, groups))
        x = self.attention["output"]["LayerNorm"](x + drop(attended))
        hidden = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + drop(self.output["dense"](hidden)))

    def _attend(self, x: Tensor, groups: list) -> Tensor:
        projected = [split(self.attention["self"][name](x), groups) for name in ("query", "key", "value")]
        results = []
        for (q, n, length), (k, _, _), (v, _, _) in zip(*projected):
            q, k, v = (part.view(n, length, self.num_heads, -1).transpose(1, 2) for part in (q, k, v))  # [n,H,L,E/H]
            weights = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).softmax(-1)
            results.append((weights @ v).transpose(1, 2).reshape(n * length, -1))
        return torch.cat(results)
