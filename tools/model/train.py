#!/usr/bin/env python3
"""Trains heed's model on build/model/pairs.tsv (prepare.py writes it), on one CPU core, for hours or days.

Symmetric InfoNCE (van den Oord et al. 2018) over the vector's first 256 and first 128 entries (Matryoshka, Kusupati et al. 2022). The
negatives of a description are the batch's other texts, words that share a part with one of its words (a description is not to find its
own words), words at random, and the latest vectors of all common words, which are kept in a table and get no gradient. Words that mean
about the same as the right one are no negatives. With --teacher, the cosine distance of each vector from the one that teacher.py
has made for its text is added, which teaches what the pairs do not contain.

A batch that is larger than memory allows is embedded in chunks without gradients; the loss's gradient with respect to the vectors is
computed, and each chunk is embedded again to propagate it (Gao et al. 2021).

The learning rate rises, stays, and falls linearly over the last --decay of --steps; the exported weights are an exponential average. So a
run may be stopped at any step and still be exported: more steps, or the decay, are added by the same command with a larger --steps.
Weights are kept in fp32 and computed with in bfloat16. The state goes to --checkpoint every few minutes, and the same command goes on from
there, with the same bits as without an interruption. It may be killed at any moment.

  HEED_MODEL_DATA=folder nice -n 19 python3 tools/model/train.py --start web/model --steps 60000
"""

import argparse
import fcntl
import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import sources
from data import Batch, Pairs
from heldout import HeldOut, describe, embed, embed_many
from model import Bert, Config
from safetensors import read_model
from wordpiece import WordPiece

MATRYOSHKA = (256, 128)
PAIRS = 1024  # in a batch of data.MIXTURE


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b.T in bfloat16, many times as fast here as in fp32."""
    return (a.bfloat16() @ b.bfloat16().T).float()


def contrastive(batch: Batch, vectors: torch.Tensor, places: np.ndarray, table: torch.Tensor, temperature: float) -> torch.Tensor:
    """vectors [B + B + M, E] of the batch's texts; places [M] of its words in the table of all common words [C,E] -> the loss."""
    a, b, c = vectors.split([len(batch.a), len(batch.b), len(batch.c)])
    same = alike(batch.groups, batch.first, batch.second)
    not_wrong = batch.second[:, None] == batch.words[None, :]
    for row, right in zip(batch.described, batch.right):
        not_wrong[row] |= np.isin(places, right)
    not_wrong, described = torch.from_numpy(not_wrong), torch.from_numpy(batch.described)
    rows = torch.from_numpy(np.repeat(np.arange(len(batch.right)), [len(right) for right in batch.right]))
    columns = torch.from_numpy(np.concatenate(batch.right))
    target = torch.arange(len(a))
    loss = 0.0
    for width in MATRYOSHKA:
        first, second, others = (F.normalize(x[:, :width]) for x in (a, b, c))
        scores = (product(first, second) / temperature).masked_fill(same, float("-inf"))
        wrong = (product(first, others) / temperature).masked_fill(not_wrong, float("-inf"))
        common = F.normalize(table[:, :width].float())
        far = product(first[described], common) / temperature
        far = far.index_put((rows, columns), torch.tensor(float("-inf")))
        total = torch.cat([scores, wrong], 1).logsumexp(1)
        total = total.index_put((described,), torch.logaddexp(total[described], far.logsumexp(1)))
        loss = loss + ((total - scores.diagonal()).mean() + F.cross_entropy(scores.T, target)) / 2
    return loss / len(MATRYOSHKA)


class Teacher:
    """The vectors that training texts shall have, of those texts that have one."""

    def __init__(self, path: Path, count: int):
        """`count`: of all training texts."""
        state = torch.load(path)
        self.vectors = state["vectors"]
        self.rows = torch.full((count,), -1)
        self.rows[state["ids"]] = torch.arange(len(self.vectors))

    def loss(self, ids: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """ids [N] of texts, negative for those outside the training texts, and their vectors [N,E] -> mean cosine distance over the Matryoshka widths."""
        ids = torch.from_numpy(ids)
        rows = torch.where(ids >= 0, self.rows[ids.clamp_min(0)], -1)
        taught = torch.nonzero(rows >= 0)[:, 0]
        wanted, vectors = self.vectors[rows[taught]].float(), vectors[taught].float()
        cosines = [F.cosine_similarity(vectors[:, :width], wanted[:, :width]) for width in MATRYOSHKA]
        return 1 - torch.stack(cosines).mean()


def alike(*columns) -> torch.Tensor:
    """[B,B]: where two different rows agree in one of the columns."""
    same = sum((torch.from_numpy(c)[:, None] == torch.from_numpy(c)[None, :]).int() for c in columns) > 0
    return same.fill_diagonal_(False)


class Training:
    """The state of a run: fp32 weights, their bfloat16 copy that computes, their average, the optimizer, the table of words, the CPU time spent."""

    def __init__(self, options, config: Config, pairs: Pairs):
        torch.manual_seed(options.seed)
        self.options, self.pairs, self.step, self.seconds = options, pairs, 0, 0.0
        self.master = Bert(config)
        if options.start:
            self.master.load_state_dict(grown(options.start, pairs.tokenizer, self.master.state_dict()))
        self.compute = Bert(replace(config, dropout=options.dropout)).to(torch.bfloat16)
        self.average = {name: value.clone() for name, value in self.master.state_dict().items()}
        decayed = [p for p in self.master.parameters() if p.dim() == 2]
        others = [p for p in self.master.parameters() if p.dim() != 2]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6)
        self.publish()
        self.table = None
        self.teacher = Teacher(options.data / "teacher.pt", len(pairs.texts)) if options.teacher else None

    def publish(self) -> None:
        with torch.no_grad():
            for mine, copy in zip(self.master.parameters(), self.compute.parameters()):
                copy.copy_(mine)

    def rate(self) -> float:
        o = self.options
        falling = min(1.0, (o.steps - self.step) / o.decay) if o.decay else 1.0
        return o.lr * min(1.0, (self.step + 1) / o.warmup) * falling

    def update(self) -> float:
        """One step; returns its loss."""
        started = time.process_time()
        pairs = self.pairs
        if self.table is None:
            self.table = embed_many(self.compute, [pairs.texts[t] for t in pairs.common]).bfloat16()
        batch = pairs.batch(self.step, self.options.batch / PAIRS)
        places = np.array([pairs.place[word] for word in batch.words.tolist()])
        texts = batch.a + batch.b + batch.c
        chunks = self._chunks(texts)
        self.compute.train()
        if len(chunks) == 1:
            vectors = self._embed(texts, 0)
            loss = self._loss(batch, places, vectors)
            loss.backward()
        else:
            with torch.no_grad():
                parts = [self._embed([texts[i] for i in chunk], n) for n, chunk in enumerate(chunks)]
                vectors = torch.cat(parts)[torch.from_numpy(np.argsort(np.concatenate(chunks)))]
            vectors.requires_grad_()
            loss = self._loss(batch, places, vectors)
            loss.backward()
            for n, chunk in enumerate(chunks):
                self._embed([texts[i] for i in chunk], n).backward(vectors.grad[torch.from_numpy(chunk)])
        self._remember(batch, places, vectors.detach())
        self._optimize()
        self.step += 1
        self.seconds += time.process_time() - started
        return loss.item()

    def _loss(self, batch: Batch, places: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        loss = contrastive(batch, vectors, places, self.table, self.options.temperature)
        if self.teacher:
            first = np.where(batch.second < 0, -1, batch.first)  # a passage's first text is varied beyond recognition
            ids = np.concatenate([first, batch.second, batch.words])
            loss = loss + self.options.teacher * self.teacher.loss(ids, vectors)
        return loss

    def _chunks(self, texts: list) -> list:
        """Indices of the texts, shortest first, cut where --chunk tokens are full."""
        order = np.array(sorted(range(len(texts)), key=lambda i: len(texts[i])))
        ends = np.cumsum([len(texts[i]) + 2 for i in order]) // self.options.chunk
        return np.split(order, np.flatnonzero(np.diff(ends)) + 1)

    def _embed(self, texts: list, chunk: int) -> torch.Tensor:
        """Dropout and positions are drawn from the step and the chunk, so that embedding it again gives the same vectors."""
        key = (self.options.seed, self.step, 1, chunk)
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1)[0]))
        rng = np.random.default_rng(key)
        positions = self.master.config.max_position_embeddings
        # A quarter of the texts starts late, so that positions past the longest training text are trained too.
        return embed(self.compute, texts, lambda length: int(rng.integers(positions - length)) if rng.random() < 0.25 else 0)

    def _remember(self, batch: Batch, places: np.ndarray, vectors: torch.Tensor) -> None:
        seconds = [(i, self.pairs.place[text]) for i, text in enumerate(batch.second.tolist()) if text in self.pairs.place]
        rows, known = zip(*seconds)
        start = len(batch.a)
        # A word may occur twice; its vector in the last row stays, whatever the order of writing.
        latest = dict(zip([*known, *places.tolist()], [*(start + i for i in rows), *range(2 * start, len(vectors))]))
        self.table[list(latest)] = vectors[list(latest.values())].to(self.table.dtype)

    def _optimize(self) -> None:
        for mine, copy in zip(self.master.parameters(), self.compute.parameters()):
            mine.grad = None if copy.grad is None else copy.grad.float()
            copy.grad = None
        torch.nn.utils.clip_grad_norm_(self.master.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        self.publish()
        share = max(1 - self.options.average, 1 / (self.step + 10))
        with torch.no_grad():
            for name, value in self.master.state_dict().items():
                self.average[name].lerp_(value, share)

    def save(self, path: Path, data: str) -> None:
        state = {
            "config": self.master.config.__dict__,
            "model": self.master.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
            "table": self.table,
            "step": self.step,
            "seconds": self.seconds,
            "options": {k: str(v) for k, v in vars(self.options).items()},
            "data": data,
        }
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def resume(self, path: Path, data: str) -> None:
        state = torch.load(path)
        if state["data"] != data:
            raise SystemExit(f"train: {path} was trained on other pairs than those in pairs.tsv; remove it to start anew")
        if state["config"] != self.master.config.__dict__:
            raise SystemExit(f"train: {path} has another architecture: {state['config']}; remove it to start anew")
        self.master.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average, self.table, self.step, self.seconds = (state[k] for k in ("average", "table", "step", "seconds"))
        self.publish()


def grown(folder: Path, tokenizer: WordPiece, fresh: dict) -> dict:
    """The weights of a model folder for another vocabulary: a new piece gets the mean of the pieces that it consisted of before.

    Layers that the folder lacks keep the values of `fresh`.
    """
    weights, vocabulary = read_model(folder)
    name = "embeddings.word_embeddings.weight"
    table, old = weights.pop(name), WordPiece(vocabulary)
    rows = []
    for piece in tokenizer.ids:
        parts = [old.ids[piece]] if piece in old.ids else old.pieces(piece.removeprefix("##"), piece.startswith("##"))
        rows.append(table[parts].mean(0))
    return fresh | weights | {name: torch.stack(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=sources.DATA)
    parser.add_argument("--steps", type=int, required=True, help="steps to train for, those before a resumption included")
    parser.add_argument("--decay", type=int, default=0, help="steps at the end over which the learning rate falls to 0")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=PAIRS, help="pairs of a step")
    parser.add_argument("--chunk", type=int, default=32768, help="tokens that are embedded at a time")
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--teacher", type=float, default=0.0, help="weight of the distance from teacher.py's vectors")
    parser.add_argument("--dropout", type=float, default=Config.dropout)
    parser.add_argument("--average", type=float, default=0.999, help="decay of the average of the weights")
    parser.add_argument("--start", type=Path, help="a model folder whose weights to start from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=Config.num_hidden_layers)
    parser.add_argument("--save-minutes", type=float, default=4)
    parser.add_argument("--evaluate-minutes", type=float, default=60, help="CPU minutes; the state is then kept in a second file, too")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    path = options.data / options.checkpoint
    lock = path.with_suffix(".lock").open("w")  # held until the process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SystemExit(f"train: another process trains {path}") from None

    pairs = Pairs(options.data, options.seed)
    dev = HeldOut(options.data, pairs.tokenizer, pairs.index)
    data = hashlib.sha256((options.data / "pairs.tsv").read_bytes()).hexdigest()
    run = Training(options, Config(vocab_size=len(pairs.tokenizer.ids), num_hidden_layers=options.layers), pairs)
    if path.exists():
        run.resume(path, data)
        print(f"resuming at step {run.step}, {run.seconds / 60:.1f} min trained")
    count = sum(p.numel() for p in run.master.parameters())
    print(f"{count} parameters, {sum(len(k) for k in pairs.kinds.values())} pairs, {options.threads} threads, seed {options.seed}", flush=True)

    def evaluate() -> None:
        """Of the averaged weights."""
        model = Bert(run.master.config)
        model.load_state_dict(run.average)
        print(describe(dev.evaluate(model.to(torch.bfloat16))), flush=True)

    saved, evaluated = time.monotonic(), run.seconds
    losses = []
    while run.step < options.steps:
        losses.append(run.update())
        if run.step % 50 == 0:
            print(f"step {run.step} {run.seconds / 60:.1f} min loss {sum(losses) / len(losses):.4f} lr {run.rate():.2e}", flush=True)
            losses = []
        if time.monotonic() - saved > 60 * options.save_minutes:
            run.save(path, data)
            saved = time.monotonic()
        if run.seconds - evaluated > 60 * options.evaluate_minutes:
            run.save(path.with_suffix(".evaluated.pt"), data)
            evaluate()
            evaluated = run.seconds
    run.save(path, data)
    print(f"done: {run.step} steps in {run.seconds / 60:.1f} min")
    evaluate()


if __name__ == "__main__":
    main()
