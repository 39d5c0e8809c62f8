/** Losses, as PyTorch's functions of the same names; each is the mean over the examples. */
import type { RawTensor } from '../core.js';
import { run } from '../functions.js';
import {
  finite,
  flag,
  integer,
  legal,
  optional,
  positive,
  type Read,
  type Reader,
  rate,
  type Schema,
  tensor,
} from '../options.js';
import { readTensor, type TensorInput } from '../tensor.js';
import type { RawVariable } from './core.js';
import { type IndexInput, readIndices } from './indices.js';
import { Loss } from './loss.js';
import type { Recording } from './scope.js';
import type { Tape } from './tape.js';

/** Options of `losses.crossEntropy`. */
export interface CrossEntropyOptions {
  /** Examples with this label do not count. Default -100. */
  ignoreIndex?: number;
  /** In [0, 1]: this part of the target is spread over all classes. Default 0. */
  labelSmoothing?: number;
  /** A factor per class, [C]; the mean is weighted by them. Default: ones. */
  weight?: TensorInput;
}

/** Options of `losses.bceWithLogits`. */
export interface BceWithLogitsOptions {
  /** A factor per entry of the last axis, [C]. Default: ones. */
  weight?: TensorInput;
  /** A factor on the positive targets of each entry of the last axis, [C]. Default: ones. */
  posWeight?: TensorInput;
}

/** Options of `losses.poisson`. */
export interface PoissonOptions {
  /** The input is the logarithm of the rate: exp(x) - y x; otherwise x - y log(x + eps). Default true. */
  logInput?: boolean;
  /** Adds Stirling's approximation of log(y!). Default false. */
  full?: boolean;
  /** Default 1e-8. */
  eps?: number;
}

/** Options of `losses.cosineEmbedding`. */
export interface CosineEmbeddingOptions {
  /** Default 0. */
  margin?: number;
}

/** Options of `losses.triplet`. */
export interface TripletOptions {
  /** Default 1. */
  margin?: number;
}

/** Options of `losses.infoNCE`. */
export interface InfoNCEOptions {
  /** Factor on the cosines; default 20. */
  scale?: number;
  /** One id per row of `a`: rows of the same id are not each other's negatives. Needed with dropout, which makes equal inputs differ. */
  groups?: IndexInput;
}

/** Options of `losses.supervisedContrastive`. */
export interface SupervisedContrastiveOptions {
  /** Factor on the cosines, the inverse of the temperature; default 10, as in the paper. */
  scale?: number;
}

const crossEntropySchema = {
  ignoreIndex: optional((value, name) => integer(value, name, -(2 ** 31)), -100),
  labelSmoothing: optional(rate, 0),
  weight: optional(tensor, null),
} satisfies Schema<CrossEntropyOptions>;

const bceSchema = {
  weight: optional(tensor, null),
  posWeight: optional(tensor, null),
} satisfies Schema<BceWithLogitsOptions>;

const poissonSchema = {
  logInput: optional(flag, true),
  full: optional(flag, false),
  eps: optional(positive, 1e-8),
} satisfies Schema<PoissonOptions>;

const cosineSchema = { margin: optional(finite, 0) } satisfies Schema<CosineEmbeddingOptions>;
const tripletSchema = {
  margin: optional(
    legal<number>('a number >= 0', (value) => typeof value === 'number' && value >= 0),
    1,
  ),
} satisfies Schema<TripletOptions>;
const infoNCESchema = {
  scale: optional(positive, 20),
  groups: optional(readGroups, null),
} satisfies Schema<InfoNCEOptions>;
const supervisedContrastiveSchema = { scale: optional(positive, 10) } satisfies Schema<SupervisedContrastiveOptions>;

function readGroups(value: unknown, name: string) {
  return readIndices(name, value);
}

/** The losses. Inputs may be results of layers in training mode or plain tensors. Errors: `SHAPE_MISMATCH`, `INVALID_ARGUMENT`. */
export interface Losses {
  /**
   * Of logits [..., C] and class indices [...] in [0, C): -log(softmax(logits)[label]). NaN if all labels are ignored, as in PyTorch.
   *
   * @example
   * heed.losses.crossEntropy([[2, 0], [0, 2]], [0, 1]).item(); // 0.1269
   */
  crossEntropy(logits: TensorInput, labels: IndexInput, options?: CrossEntropyOptions): Loss;
  /**
   * (input - target)^2 of two tensors of one shape.
   *
   * @example
   * heed.losses.mse([1, 2], [1, 4]).item(); // 2
   */
  mse(input: TensorInput, target: TensorInput): Loss;
  /**
   * Binary cross entropy of logits and targets in [0, 1] of one shape [..., C].
   *
   * @example
   * heed.losses.bceWithLogits([[0, 2]], [[1, 1]]).item(); // 0.41
   */
  bceWithLogits(logits: TensorInput, target: TensorInput, options?: BceWithLogitsOptions): Loss;
  /**
   * Negative log-likelihood of counts `target` under Poisson distributions, of two tensors of one shape.
   *
   * @example
   * heed.losses.poisson([0, 1], [1, 2]).item(); // 0.859
   */
  poisson(input: TensorInput, target: TensorInput, options?: PoissonOptions): Loss;
  /**
   * a, b [..., E], labels [...] of 1 or -1: 1 - cos(a, b) for 1, max(0, cos(a, b) - margin) for -1.
   *
   * @example
   * heed.losses.cosineEmbedding([[1, 0], [1, 0]], [[1, 0], [1, 1]], [1, -1]).item(); // 0.354
   */
  cosineEmbedding(a: TensorInput, b: TensorInput, labels: TensorInput, options?: CosineEmbeddingOptions): Loss;
  /**
   * max(0, |anchor - positive| - |anchor - negative| + margin) of tensors [..., E] of one shape.
   *
   * @example
   * heed.losses.triplet([[0, 0]], [[0, 1]], [[3, 0]], { margin: 3 }).item(); // 1
   */
  triplet(anchor: TensorInput, positive: TensorInput, negative: TensorInput, options?: TripletOptions): Loss;
  /**
   * In-batch negatives: a [N, E], b [M, E], M >= N. Row i of b belongs to row i of a; the other rows of b are its negatives (van den Oord et al. 2018, arXiv:1807.03748). A
   * pair j is no negative of i if its rows equal those of i, or by `groups`.
   *
   * @example
   * heed.losses.infoNCE([[1, 0], [0, 1]], [[1, 0], [0, 1]], { scale: 1 }).item(); // 0.313
   */
  infoNCE(a: TensorInput, b: TensorInput, options?: InfoNCEOptions): Loss;
  /**
   * Of vectors x [..., E] and labels [...]: rows with the label of row i attract it, all others repel it (Khosla et al. 2020, arXiv:2004.11362). The mean of
   * -log(exp(scale cos(x_i, x_p)) / sum of exp(scale cos(x_i, x_j))) over the other rows p of the label, j being all other rows; then the mean over the rows i that have a p, or
   * 0 if none has.
   *
   * @example
   * heed.losses.supervisedContrastive([[1, 0], [1, 0], [0, 1]], [0, 0, 1], { scale: 1 }).item(); // 0.313
   */
  supervisedContrastive(x: TensorInput, labels: IndexInput, options?: SupervisedContrastiveOptions): Loss;
}

/** The names of the functions that `lossesOf` returned. */
export const lossNames = new WeakMap<object, string>();

/** The losses of one runtime. */
export function lossesOf(tape: Tape): Losses {
  const { core } = tape;

  /** Records a loss of tensors; `record` gets their variables. */
  function loss<S extends Record<string, Reader<unknown>>>(
    name: string,
    tensors: Record<string, TensorInput>,
    schema: S,
    options: unknown,
    record: (call: Recording, variables: RawVariable[], options: Read<S>) => RawVariable,
  ): Loss {
    const names = Object.keys(tensors);
    return run(`losses.${name}`, tensors, schema, options, (raw: RawTensor[], read) =>
      tape.record(null, (call) => {
        const variables = raw.map((one, i) => call.input(names[i]!, one));
        return new Loss(tape, call.output(record(call, variables, read)));
      }),
    );
  }

  const losses: Losses = {
    crossEntropy(logits, labels, options) {
      const read = readIndices('losses.crossEntropy: labels', labels);
      return loss('crossEntropy', { logits }, crossEntropySchema, options, ({ graph }, [x], given) =>
        core.recordCrossEntropy(graph, x!, read, given),
      );
    },
    mse: (input, target) =>
      loss('mse', { input, target }, {}, {}, ({ graph }, [x, y]) => core.recordMse(graph, x!, y!)),
    bceWithLogits: (logits, target, options) =>
      loss('bceWithLogits', { logits, target }, bceSchema, options, ({ graph }, [x, y], given) =>
        core.recordBceWithLogits(graph, x!, y!, given),
      ),
    poisson: (input, target, options) =>
      loss('poisson', { input, target }, poissonSchema, options, ({ graph }, [x, y], given) =>
        core.recordPoisson(graph, x!, y!, given),
      ),
    cosineEmbedding(a, b, labels, options) {
      const read = readTensor('losses.cosineEmbedding: labels', labels);
      return loss('cosineEmbedding', { a, b }, cosineSchema, options, ({ graph }, [x, y], { margin }) =>
        core.recordCosineEmbedding(graph, x!, y!, read, margin),
      );
    },
    triplet: (anchor, positive, negative, options) =>
      loss('triplet', { anchor, positive, negative }, tripletSchema, options, ({ graph }, [a, p, n], { margin }) =>
        core.recordTriplet(graph, a!, p!, n!, margin),
      ),
    infoNCE: (a, b, options) =>
      loss('infoNCE', { a, b }, infoNCESchema, options, ({ graph }, [x, y], { scale, groups }) =>
        core.recordInfoNCE(graph, x!, y!, scale, groups),
      ),
    supervisedContrastive(x, labels, options) {
      const read = readIndices('losses.supervisedContrastive: labels', labels);
      return loss('supervisedContrastive', { x }, supervisedContrastiveSchema, options, ({ graph }, [a], { scale }) =>
        core.recordSupervisedContrastive(graph, a!, read, scale),
      );
    },
  };
  for (const [name, loss] of Object.entries(losses)) lossNames.set(loss, name);
  return losses;
}
