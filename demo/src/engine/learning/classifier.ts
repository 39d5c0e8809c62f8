/**
 * Teaches labels to the shipped model: a linear layer on its frozen sentence vectors, the same as `trainClassifier` trains, and those that leave examples out. All are trained
 * at once, as blocks of one layer.
 *
 * Notation: N examples, E width of a vector, C labels, K classifiers.
 */
import type { Loss, Parameter, Savable, Tensor, TrainableModel, TrainingHeed } from 'heed/train';
import { type LabelledText, moments, recipe } from './examples';

/** Each part of the examples is left out once. With fewer examples than this, each part is one example. */
const mostParts = 50;

export interface Prediction {
  /** Index of the likeliest label. */
  label: number;
  probabilities: number[];
}

export interface Taught {
  labels: string[];
  /** [N][E] the sentence vectors, [N][C] their logits. */
  vectors: number[][];
  logits: number[][];
  /** [moments][N][C] the logits on the way, after the epochs of `moments`. The last ones are `logits`. */
  path: number[][][];
  /** Weights [C][E] and biases [C] of the classifier that learned from all examples. */
  classifier: { weight: number[][]; bias: number[] };
  /** What a classifier predicts that has not learned from the example; null if no other example has its label. */
  leftOut: (Prediction | null)[];
  /** In how many parts the examples were left out; N: one at a time. */
  parts: number;
  /** Positions of the examples that are longer than the model's limit, of which the rest is not read. */
  truncated: number[];
  /** Positions of the examples of which the model knows no token, so that all of their kind have nearly the same vector. */
  unknown: number[];
  /** Time to embed the new texts, and to train, in milliseconds. */
  embedding: number;
  training: number;
}

export interface Tested extends Prediction {
  vector: number[];
  logits: number[];
  /** [moments][C] the logits on the way, as in `Taught`. */
  path: number[][];
  /** Whether the model knows no token of the text. */
  isUnknown: boolean;
}

interface Embedded {
  vector: Float32Array;
  isTruncated: boolean;
  isUnknown: boolean;
}

export interface Explanation {
  /** Index of the label that the text gets. */
  label: number;
  tokens: string[];
  /** For each token; positive: for the label. */
  scores: number[];
}

const wordTable = 'embeddings.word_embeddings.weight';
const positionTable = 'embeddings.position_embeddings.weight';

export class Teacher {
  readonly #heed: TrainingHeed;
  readonly #model: TrainableModel & Savable;
  readonly #embedded = new Map<string, Embedded>();
  /** [vocabulary, E]; read when it is first needed. */
  #words: Float32Array | undefined;
  /** Weight [C, E] and bias [C] of the classifier that learned from all examples. */
  #classifier: Classifier | undefined;
  /** That classifier after the epochs of `moments`. */
  #moments: Classifier[] = [];

  constructor(heed: TrainingHeed, model: TrainableModel & Savable) {
    this.#heed = heed;
    this.#model = model;
    // What `explain` needs the gradients of.
    model.freeze().unfreeze(positionTable);
  }

  /** Learns from `examples`, which have at least two labels; see `checkExamples`. */
  async teach(examples: LabelledText[]): Promise<Taught> {
    const start = performance.now();
    const texts = examples.map(({ text }) => text);
    await this.#embed(texts);
    const embedded = performance.now();
    const known = texts.map((text) => this.#embedded.get(text)!);
    const labels = [...new Set(examples.map(({ label }) => label))].sort();
    const targets = examples.map(({ label }) => labels.indexOf(label));
    const vectors = known.map(({ vector }) => Array.from(vector));
    const parts = Math.min(examples.length, mostParts);
    const { classifiers, path } = trainClassifiers(this.#heed, vectors, targets, labels.length, parts);
    this.#classifier = classifiers.at(-1)!;
    this.#moments = path;
    const logits = vectors.map((vector) => this.logitsOf(vector));
    const counts = labels.map((_, label) => targets.filter((target) => target === label).length);
    return {
      labels,
      vectors,
      logits,
      path: this.#moments.map((classifier) => vectors.map((vector) => apply(classifier, vector))),
      classifier: this.#classifier,
      leftOut: vectors.map((vector, i) =>
        counts[targets[i]!]! > 1 ? predictionOf(apply(classifiers[i % parts]!, vector)) : null,
      ),
      parts,
      truncated: known.flatMap(({ isTruncated }, i) => (isTruncated ? [i] : [])),
      unknown: known.flatMap(({ isUnknown }, i) => (isUnknown ? [i] : [])),
      embedding: embedded - start,
      training: performance.now() - embedded,
    };
  }

  /** Labels a text as `teach` has learned it. */
  async test(text: string): Promise<Tested> {
    await this.#embed([text]);
    const { vector: embedded, isUnknown } = this.#embedded.get(text)!;
    const vector = Array.from(embedded);
    const logits = this.logitsOf(vector);
    const path = this.#moments.map((classifier) => apply(classifier, vector));
    return { vector, logits, path, isUnknown, ...predictionOf(logits) };
  }

  /** The logits of a sentence vector. */
  logitsOf(vector: number[]): number[] {
    return apply(this.#classifier!, vector);
  }

  /**
   * How much each token of a text contributes to its label (gradient × input; Shrikumar et al. 2016, arXiv:1605.01713): the product of the token's word vector and the gradient of
   * the label's logit minus the mean logit. A token's position vector is added to its word vector, so both have the same gradient.
   */
  async explain(text: string): Promise<Explanation> {
    const { label } = await this.test(text);
    const { tokens, inputIds } = await this.#model.tokenize([text]);
    const gradients = this.#gradients(text, label);
    this.#words ??= this.#parameter(wordTable).value.data;
    const width = gradients.shape[1]!;
    const scores = inputIds[0]!.map((id, position) => {
      let product = 0;
      for (let j = 0; j < width; j++) product += this.#words![id * width + j]! * gradients.data[position * width + j]!;
      return product;
    });
    return { label, tokens: tokens[0]!, scores };
  }

  /** The gradients of the label's logit minus the mean logit with respect to the position vectors, [positions, E]. */
  #gradients(text: string, label: number): Tensor {
    const { weight } = this.#classifier!;
    const mean = weight[0]!.map((_, j) => weight.reduce((sum, row) => sum + row[j]!, 0) / weight.length);
    const direction = weight[label]!.map((entry, j) => entry - mean[j]!);
    const table = this.#parameter(positionTable);
    const optimizer = new this.#heed.optim.SGD([table], { lr: 0 });
    try {
      const vector = this.#model.train().sentenceVectors([text]);
      const score = this.#heed.reshape(this.#heed.linear(vector, { weight: [direction] }), []);
      (score as unknown as Loss).backward();
      return table.grad!;
    } finally {
      optimizer.zeroGrad();
      optimizer.dispose();
      this.#model.eval();
    }
  }

  #parameter(name: string): Parameter {
    return this.#model.parameters().find((parameter) => parameter.name === name)!;
  }

  /** The model's folder with the classifier, as a ZIP archive. */
  async save(examples: LabelledText[]): Promise<Uint8Array<ArrayBuffer>> {
    await this.#heed.trainClassifier(this.#model, examples, { ...recipe, batchSize: examples.length, seed: 1 });
    const [files, { zipSync }] = await Promise.all([this.#model.save(), import('./learning-zip')]);
    return zipSync(files, { level: 0 }) as Uint8Array<ArrayBuffer>; // weights hardly compress
  }

  /** Embeds the texts that are new. */
  async #embed(texts: string[]): Promise<void> {
    if (this.#embedded.size > mostKept) this.#embedded.clear();
    const missing = [...new Set(texts)].filter((text) => !this.#embedded.has(text));
    if (missing.length === 0) return;
    const { truncated, tokens } = await this.#model.tokenize(missing);
    const { data, shape } = await this.#model.embed(missing);
    const width = shape[1]!;
    for (const [i, text] of missing.entries())
      this.#embedded.set(text, {
        vector: data.slice(i * width, (i + 1) * width),
        isTruncated: truncated[i]! > 0,
        isUnknown: tokens[i]!.every((token) => specialTokens.has(token)),
      });
  }
}

/** Of the shipped model, a BERT: around every text, and for what is not in the vocabulary. */
const specialTokens = new Set(['[CLS]', '[SEP]', '[UNK]']);

/** Every state of a text that is being typed is embedded. */
const mostKept = 5000;

interface Classifier {
  weight: number[][];
  bias: number[];
}

/** Trains `parts` classifiers that leave out every `parts`-th example from 0, 1, ... on, and one that learns from all, whose state after each of `moments` is `path`. */
function trainClassifiers(
  heed: TrainingHeed,
  vectors: number[][],
  targets: number[],
  classes: number,
  parts: number,
): { classifiers: Classifier[]; path: Classifier[] } {
  const count = parts + 1;
  const width = vectors[0]!.length;
  const layer = new heed.Linear({ inFeatures: width, outFeatures: count * classes });
  layer.loadStateDict({
    weight: { data: new Float32Array(count * classes * width), shape: [count * classes, width] },
    bias: { data: new Float32Array(count * classes), shape: [count * classes] },
  });
  const optimizer = new heed.optim.AdamW(layer.train().parameters(), {
    lr: recipe.lr,
    weightDecay: recipe.weightDecay,
  });
  // The labels of each example, once per classifier; those that are left out do not count.
  const labels = targets.map((target, i) =>
    Array.from({ length: count }, (_, part) => (part < parts && i % parts === part ? -100 : target)),
  );
  const path: Classifier[] = [];
  const stateOf = (part: number, { weight, bias }: { weight: Tensor; bias: Tensor }): Classifier => ({
    weight: weight.slice(part * classes, (part + 1) * classes).toArray() as number[][],
    bias: bias.slice(part * classes, (part + 1) * classes).toArray() as number[],
  });
  const state = () => layer.stateDict() as { weight: Tensor; bias: Tensor };
  try {
    for (let step = 0; step < recipe.epochs; step++) {
      if (moments.includes(step)) path.push(stateOf(parts, state()));
      optimizer.zeroGrad();
      const logits = heed.reshape(layer.forward(vectors), [vectors.length, count, classes]);
      heed.losses.crossEntropy(logits, labels).backward();
      optimizer.step();
    }
    const trained = state();
    const classifiers = Array.from({ length: count }, (_, part) => stateOf(part, trained));
    return { classifiers, path: [...path, classifiers.at(-1)!] };
  } finally {
    optimizer.dispose();
    layer.dispose();
  }
}

const apply = ({ weight, bias }: Classifier, vector: number[]): number[] =>
  weight.map((row, label) => row.reduce((sum, entry, j) => sum + entry * vector[j]!, bias[label]!));

function predictionOf(logits: number[]): Prediction {
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return { label: logits.indexOf(most), probabilities: powers.map((power) => power / total) };
}
