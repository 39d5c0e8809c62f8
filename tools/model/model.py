"""A small BERT (Devlin et al. 2018) with a mean-pooled sentence vector; its parameters carry Hugging Face's names.

Letters: N texts, L tokens of the longest, E width, H heads, F feed-forward width.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    vocab_size: int = 8192
    hidden_size: int = 256
    num_hidden_layers: int = 4
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

    def forward(self, ids: Tensor, mask: Tensor, offset: int = 0, layers=None) -> Tensor:
        """ids, mask [N,L] -> the mean over the tokens that the mask keeps [N,E].

        `offset` is the first token's position; `layers` stops after so many (0: embeddings alone).
        """
        x = self.embeddings(ids, offset)
        bias = torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, float("-inf"))[:, None, None, :]
        for layer in self.encoder["layer"][:layers]:
            x = layer(x, bias)
        keep = mask[..., None].to(x.dtype)
        return (x * keep).float().sum(1) / mask.sum(1, keepdim=True)


class Embeddings(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = TextDropout(config.dropout)

    def forward(self, ids: Tensor, offset: int) -> Tensor:
        positions = self.position_embeddings.weight[offset : offset + ids.shape[1]]
        return self.dropout(self.LayerNorm(self.word_embeddings(ids) + positions + self.token_type_embeddings.weight[0]))


class Layer(nn.Module):
    """Post-norm encoder layer."""

    def __init__(self, config: Config):
        super().__init__()
        width = config.hidden_size
        norm = lambda: nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.num_heads = config.num_attention_heads
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")}),
                "output": nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": norm()}),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, config.intermediate_size)})
        self.output = nn.ModuleDict({"dense": nn.Linear(config.intermediate_size, width), "LayerNorm": norm()})
        self.dropout = TextDropout(config.dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """x [N,L,E], bias [N,1,1,L] -> [N,L,E]"""
        out = self.attention["output"]
        x = out["LayerNorm"](x + self.dropout(out["dense"](self._attend(x, bias))))
        hidden = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + self.dropout(self.output["dense"](hidden)))

    def _attend(self, x: Tensor, bias: Tensor) -> Tensor:
        n, length, width = x.shape
        heads = lambda name: self.attention["self"][name](x).view(n, length, self.num_heads, -1).transpose(1, 2)
        q, k, v = heads("query"), heads("key"), heads("value")  # [N,H,L,E/H]
        scores = q @ k.transpose(2, 3) * (width // self.num_heads) ** -0.5
        return ((scores + bias).softmax(-1) @ v).transpose(1, 2).reshape(n, length, width)


class TextDropout(nn.Module):
    """Dropout whose mask is shared by the tokens of a text (Gal and Ghahramani 2016): a fraction of the draws."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = torch.rand(x.shape[0], 1, x.shape[2]) >= self.p
        return x * (keep.float() / (1 - self.p)).to(x.dtype)
