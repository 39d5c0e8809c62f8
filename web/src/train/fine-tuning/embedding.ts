/** `trainEmbedding`: trains a pretrained model to embed similar texts close to each other. */
import { invalid } from '../../base/error.js';
import { inTurns, makeYield } from '../../base/event-loop.js';
import {
  callback,
  finite,
  listOf,
  optional,
  positive,
  type Reader,
  readOptions,
  type Schema,
  size,
} from '../../base/options.js';
import { Tensor, type TensorLike } from '../../base/tensor.js';
import { concatenate } from '../../io/files.js';
import type { PretrainedModel } from '../../models/model.js';
import type { Batch } from '../fit/batches.js';
import type { FitProgress, History } from '../fit/fit-options.js';
import { Loss } from '../graph/loss.js';
import { operationsOf } from '../graph/operations.js';
import type { Tape } from '../graph/tape.js';
import { lossesOf } from '../losses.js';
import { matryoshkaOf, readDims } from '../matryoshka.js';
import { requireComparable, rowBatches } from './embedding-batches.js';
import { type EmbeddingExamples, groupsOf, readEmbeddingData } from './embedding-examples.js';
import { EncoderModule, type EncoderTraining, isLora, readTraining, requireTrainable } from './encoder.js';
import { epochsFor, fitEncoder } from './fit-encoder.js';
import type { Kit } from './head.js';
import { withSeed } from './run.js';
import {
  countTruncated,
  decay,
  type FineTuningOptions,
  fineTuningSchema,
  requireOwn,
  trainingOf,
  withTrained,
} from './training-call.js';

/** Options of `trainEmbedding`. */
export interface EmbeddingTrainingOptions extends FineTuningOptions {
  /**
   * What is trained. 'full' (default): all parameters; a name pattern: the matching parameters; `{ lora }`: LoRA
   * adapters, see `addLora`.
   */
  train?: EncoderTraining | undefined;
  /**
   * The number of passes over all examples. Default: the number that gives about 60 steps, at least 1 and at most 10;
   * for labeled texts, 8.
   */
  epochs?: number | undefined;
  /**
   * The number of examples per step. The negatives of a text are the other texts of its batch, so larger batches teach
   * more. Default: 32; for fewer than 128 examples, a quarter of them, but at least 4; for labeled texts, 64.
   */
  batchSize?: number | undefined;
  /**
   * The maximum number of texts whose graph is in memory at a time. Larger batches are embedded twice (Gao et al. 2021,
   * arXiv:2101.06983), with the same result. Default 64.
   */
  chunkSize?: number | undefined;
  /** The factor on the cosines, which is the inverse of the temperature. Default: 20; for labeled texts, 5. */
  scale?: number | undefined;
  /**
   * The widths to which vectors can later be cut with `dimensions`: the loss is the sum of the losses at these widths.
   * Include the full width. Default: only the full width.
   */
  matryoshkaDims?: readonly number[] | undefined;
  /** One factor per entry of `matryoshkaDims`. Default: ones. */
  matryoshkaWeights?: readonly number[] | undefined;
  /**
   * The learning rate of AdamW, which rises during the first tenth of the steps and then falls to 0. Default: 0.001 for
   * LoRA adapters, 2e-5 otherwise.
   */
  lr?: number | undefined;
  /** The weight decay of AdamW, which biases and norms do not have. Default 0.01. */
  weightDecay?: number | undefined;
  /**
   * Validation data: examples on which the loss is measured after each epoch, or the fraction of the examples, in (0,
   * 1), to hold out for that. Default: none.
   */
  validation?: number | EmbeddingExamples | undefined;
  /** Called after each step with its progress. */
  onStep?: ((progress: FitProgress) => void) | undefined;
}

/** The result of `trainEmbedding`. */
export interface EmbeddingResult {
  /** The loss of each epoch and, with validation, the validation loss. */
  history: History;
  /** The number of texts that were cut to the model's maximum number of tokens. */
  truncated: number;
}

const NAME = 'trainEmbedding';
const DIM_NAMES = { dims: `${NAME}.matryoshkaDims`, weights: `${NAME}.matryoshkaWeights` };

const trainingReader: Reader<EncoderTraining> = (value, name) => {
  if (value !== 'head') return readTraining(value, name);
  throw invalid(name, "'full', names of parameters or { lora }", "'head', which embedding models do not have");
};

const schema = {
  train: optional(trainingReader, 'full' as const),
  batchSize: optional(size, null),
  chunkSize: optional(size, 64),
  scale: optional(positive, null),
  matryoshkaDims: optional(listOf(size, 'an array of dimensions'), null),
  matryoshkaWeights: optional(listOf(finite, 'an array of numbers'), null),
  weightDecay: optional(decay, 1e-2),
  ...fineTuningSchema,
  onStep: callback<(progress: FitProgress) => void>,
} satisfies Schema<EmbeddingTrainingOptions>;

/** Defaults for pairs and for labeled texts. web/model/README.md describes how those for labeled texts were chosen. */
const PAIRS = { batchSize: 32, scale: 20 };
const LABELED = { batchSize: 64, scale: 5 };

/**
 * The default batch size for pairs: a quarter of the examples, at least 4 and at most 32, so that even a few examples
 * give several steps.
 */
const batchOf = (count: number) => Math.min(PAIRS.batchSize, Math.max(4, Math.ceil(count / 4)));
const LABELED_EPOCHS = 8;

/** @internal See `FineTuning.trainEmbedding`. */
export async function trainEmbedding(
  kit: Kit,
  model: PretrainedModel,
  examples: EmbeddingExamples,
  options?: EmbeddingTrainingOptions,
): Promise<EmbeddingResult> {
  const read = withSeed(NAME, readOptions(NAME, schema, options), options);
  const trainable = requireTrainable(NAME, requireOwn(kit, NAME, model));
  if (read.matryoshkaWeights && !read.matryoshkaDims)
    throw invalid(DIM_NAMES.weights, 'none without `matryoshkaDims`', 'weights');
  const between = makeYield(read.signal);
  return trainingOf(NAME, model, async () => {
    const data = await inTurns(readEmbeddingData(examples, read), between);
    requireComparable(data);
    await between();
    const { trained, held } = data;
    return withTrained(NAME, trainable, read.train, async () => {
      const all = [...trained.texts, ...(held?.texts ?? [])].flat();
      const truncated = await countTruncated(model, [...new Set(all)], read);
      const count = trained.texts.length;
      const isLabeled = trained.labels !== null && !trained.isScored;
      const scale = read.scale ?? (isLabeled ? LABELED : PAIRS).scale;
      const batchSize = read.batchSize ?? (isLabeled ? LABELED.batchSize : batchOf(count));
      const { matryoshkaDims, matryoshkaWeights, seed } = read;
      const module = new SimilarityModule(kit.tape, trainable, { ...read, scale, isScored: trained.isScored ?? false });
      const data = (epoch: number) => rowBatches(trained, batchSize, seed, epoch);
      const history = await fitEncoder(kit, NAME, module, data, {
        ...read,
        loss: (output: Tensor, labels: readonly number[] | undefined, batch: Batch) =>
          module.loss(output, labels ?? null, batch.inputs as string[][]),
        lr: read.lr ?? (isLora(read.train) ? 1e-3 : 2e-5),
        epochs: read.epochs ?? (isLabeled ? LABELED_EPOCHS : epochsFor(count, batchSize, 1)),
        batchSize,
        validation: held && (() => rowBatches(held, batchSize, seed, null)),
        examples: trained.texts.map((texts, i) => [texts, trained.labels?.[i]]),
        settings: { scale, matryoshkaDims, matryoshkaWeights },
      });
      return { history, truncated };
    });
  });
}

interface SimilarityOptions {
  readonly scale: number;
  readonly chunkSize: number;
  readonly isScored: boolean;
  readonly matryoshkaDims: readonly number[] | null;
  readonly matryoshkaWeights: readonly number[] | null;
}

/**
 * Maps rows of texts to vectors: those of the first texts of all rows, then those of the second texts, and so on,
 * [columns * N, E].
 */
class SimilarityModule extends EncoderModule {
  readonly #options: SimilarityOptions;
  /** The chunks of the batch whose vectors `forward` has returned without their graphs. */
  #chunks: { texts: string[]; replay: () => void }[] = [];

  constructor(tape: Tape, model: EncoderModule['model'], options: SimilarityOptions) {
    super(tape, model, {});
    this.#options = options;
  }

  override forward(rows: unknown): Tensor {
    const given = rows as readonly (readonly string[])[];
    const texts = given[0]!.flatMap((_, column) => given.map((row) => row[column]!));
    this.#chunks = [];
    if (!this.training || texts.length <= this.#options.chunkSize) return this.#embed(texts);
    const parts: Tensor[] = [];
    for (let first = 0; first < texts.length; first += this.#options.chunkSize) {
      const chunk = { texts: texts.slice(first, first + this.#options.chunkSize), replay: this.draws() };
      this.#chunks.push(chunk);
      parts.push(this.#embed(chunk.texts));
      this.tape.endPasses(); // frees the graph; the vectors remain
    }
    const width = parts[0]!.shape[1]!;
    const data = concatenate(
      Float32Array,
      parts.map((part) => part.data),
    );
    return new Tensor(data, [texts.length, width]);
  }

  #embed(texts: readonly string[]): Tensor {
    return this.vectors(texts.map((text) => ({ text })));
  }

  /** The loss of a batch; `output` is the result of `forward` for it. */
  loss(output: Tensor, labels: readonly number[] | null, rows: readonly (readonly string[])[]): Loss {
    const chunks = this.#chunks;
    const { tape } = this;
    const { matryoshkaDims: dims, matryoshkaWeights: weights } = this.#options;
    const whole = (x: Tensor) => this.#lossOf(x, labels, rows);
    const compute = (x: Tensor) =>
      dims ? matryoshkaOf(tape).matryoshka(whole, [x], { dims, ...(weights && { weights }) }) : whole(x);
    if (dims) readDims(DIM_NAMES, { dims, weights }, output.shape[1]!);
    if (chunks.length === 0) return compute(output);
    const x = new Tensor(output.data.slice(), output.shape);
    const { output: loss, backward } = tape.capture(
      NAME,
      { x },
      () => [],
      () => compute(x),
    );
    const { inputs } = backward(new Tensor(Float32Array.of(1), []));
    return new ChunkedLoss(tape, loss, () => this.#backward(chunks, inputs.x!));
  }

  /** Embeds each chunk again, with the same dropout, and propagates the gradient of its vectors. */
  #backward(chunks: readonly { texts: string[]; replay: () => void }[], gradient: Tensor): void {
    const { custom } = operationsOf(this.tape);
    const width = gradient.shape[1]!;
    let first = 0;
    for (const { texts, replay } of chunks) {
      replay();
      const part = gradient.data.slice(first * width, (first + texts.length) * width);
      first += texts.length;
      const vectors = this.#embed(texts);
      const pass = custom<[Tensor]>({
        forward: () => ({ data: Float32Array.of(0), shape: [] }),
        backward: () => ({ data: part, shape: vectors.shape }),
      });
      (pass(vectors) as Loss).backward();
    }
  }

  #lossOf(x: Tensor, labels: readonly number[] | null, rows: readonly (readonly string[])[]): Loss {
    const { scale, isScored } = this.#options;
    const losses = lossesOf(this.tape);
    if (labels && !isScored) return losses.supervisedContrastive(x, [...labels], { scale });
    const { slice, concatenate: joined } = operationsOf(this.tape);
    const count = rows.length;
    const [a, b, negative] = rows[0]!.map((_, i) => slice(x, { start: i * count, end: (i + 1) * count }));
    if (labels) return losses.coSENT(a!, b!, [...labels], { scale });
    // In-batch negatives: MultipleNegativesRankingLoss of sentence-transformers, except that texts of one group (see
    // `groupsOf`) are not negatives of each other.
    const others = negative ? joined([b!, negative], { axis: 0 }) : b!;
    return losses.infoNCE(a!, others, { scale, groups: groupsOf(rows) });
  }
}

/** The loss of a batch that is embedded in chunks. */
class ChunkedLoss extends Loss {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Loss';

  readonly #run: () => void;

  constructor(tape: Tape, { data, shape }: TensorLike, run: () => void) {
    super(tape, { data, shape: [...shape] } as never);
    this.#run = run;
  }

  override backward(): void {
    if (!Number.isFinite(this.item()))
      throw invalid('backward', 'a finite loss', String(this.item()), 'DIVERGED', {
        hint: 'The parameters are unchanged. A lower learning rate may help',
      });
    this.#run();
  }
}
