"""The step of step.mjs in PyTorch on one thread: python3 step.py TASK.safetensors SECONDS."""
import json
import resource
import struct
import sys
import time

import numpy as np
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
path, seconds = sys.argv[1], float(sys.argv[2])
given = json.load(open(path.replace(".safetensors", ".json")))
task, adamw = given["task"], given["adamw"]
raw = open(path, "rb").read()
(length,) = struct.unpack("<Q", raw[:8])
state = {}
for name, entry in json.loads(raw[8 : 8 + length]).items():
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    state[name] = torch.from_numpy(np.frombuffer(raw[begin:end], np.float32).reshape(entry["shape"]).copy())
positions = state.pop("positions")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        width = task["width"]
        layer = torch.nn.TransformerEncoderLayer(
            width, task["heads"], task["hidden"], dropout=0, activation=task["activation"], batch_first=True
        )
        self.embedding = torch.nn.Embedding(task["vocabulary"], width)
        self.encoder = torch.nn.TransformerEncoder(layer, task["layers"])
        self.head = torch.nn.Linear(width, task["vocabulary"])

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids) + positions))


model = Model()
names = {"0.": "embedding.", "2.": "encoder.", "3.": "head."}
model.load_state_dict({names[key[:2]] + key[2:]: value for key, value in state.items()})
optimizer = torch.optim.AdamW(
    model.parameters(), lr=adamw["lr"], betas=adamw["betas"], eps=adamw["eps"], weight_decay=adamw["weightDecay"]
)
ids, labels = torch.tensor(given["ids"]), torch.tensor(given["labels"])


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(ids).transpose(1, 2), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


losses = [step() for _ in range(3)]
ms = []
end = time.perf_counter() + seconds
while True:
    before = time.perf_counter()
    step()
    ms.append(1000 * (time.perf_counter() - before))
    if time.perf_counter() >= end:
        break
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"losses": losses, "ms": ms, "peakMB": peak}))
