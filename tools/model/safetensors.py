"""The safetensors format: the header's length (8 bytes, little endian), a JSON header, the tensors' bytes."""

import json
import struct
from pathlib import Path

import torch

DTYPES = {torch.float32: "F32", torch.int8: "I8"}


def write(path: Path, tensors: dict) -> None:
    """Stores named tensors, those of the widest type first, so that each lies aligned."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        size = tensors[name].numel() * tensors[name].element_size()
        header[name] = {"dtype": DTYPES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            file.write(tensors[name].contiguous().numpy().tobytes())


def read_model(folder: Path) -> tuple:
    """A model folder that export.py wrote -> its weights in fp32, without scales, and its vocabulary."""
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    types = {name: dtype for dtype, name in DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(data[start + begin : start + end]), dtype=types[entry["dtype"]])
            tensors[name] = flat.view(entry["shape"]).float()
    scaled = lambda name: tensors[name] * tensors.get(f"{name}_scale", torch.ones(1))
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return {name: scaled(name) for name in tensors if not name.endswith("_scale")}, sorted(vocabulary, key=vocabulary.get)
