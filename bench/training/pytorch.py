"""Training steps of bench/training.mjs in PyTorch. The first line of standard input is the task, each further one asks for a step or for the peak memory."""

import base64
import json
import resource
import struct
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)


class Positions(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x + self.table


def tensors(encoded):
    raw = base64.b64decode(encoded)
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    body = raw[8 + size :]
    return {
        name: torch.frombuffer(bytearray(body[slice(*entry["data_offsets"])]), dtype=torch.float32).reshape(entry["shape"]).clone()
        for name, entry in header.items()
        if name != "__metadata__"
    }


task = json.loads(sys.stdin.readline())
state = tensors(task["safetensors"])
width = task["width"]
layer = nn.TransformerEncoderLayer(width, task["heads"], task["inner"], 0.0, task["activation"], batch_first=True)
model = nn.Sequential(
    nn.Embedding(state["0.weight"].shape[0], width),
    Positions(state.pop("positions")),
    nn.TransformerEncoder(layer, task["layers"]),
    nn.Linear(width, state["3.bias"].shape[0]),
)
model.load_state_dict(state)
model.train()
options = task["adamw"]
optimizer = torch.optim.AdamW(model.parameters(), options["lr"], options["betas"], options["eps"], options["weightDecay"])
ids, labels = torch.tensor(task["ids"]), torch.tensor(task["labels"]).flatten()
print(json.dumps({"version": torch.__version__}), flush=True)

for request in sys.stdin:
    if request.strip() == "peak":
        print(json.dumps({"peakMB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)
        continue
    before = time.perf_counter()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), labels)
    loss.backward()
    optimizer.step()
    value = loss.item()
    print(json.dumps({"ms": (time.perf_counter() - before) * 1000, "loss": value}), flush=True)
