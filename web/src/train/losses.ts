/**
 * Losses. Those that PyTorch also has follow its functions. Unless stated otherwise, a loss is the mean over the
 * examples.
 */
import { type IndexInput, readIndices } from '../base/indices.js';
import {
  finite,
  flag,
  integer,
  legal,
  optional,
  positive,
  type Reader,
  rate,
  type Schema,
  tensor,
} from '../base/options.js';
import { readTensor, type TensorInput } from '../base/tensor.js';
import type { RawIndices } from '../base/wasm/core.js';
import { Loss } from './graph/loss.js';
import type { Tape } from './graph/tape.js';
import { run } from './inference.js';

/** Options of `losses.crossEntropy`. */
export interface CrossEntropyOptions {
  /** The label of examples to ignore. Default -100. */
  ignoreIndex?: number;
  /** The fraction of the target, in [0, 1], that is spread evenly over all classes. Default 0. */
  labelSmoothing?: number;
  /** One factor per class, [C]; the mean is weighted by these factors. Default: ones. */
  weight?: TensorInput;
}

/** Options of `losses.bceWithLogits`. */
export interface BceWithLogitsOptions {
  /** One factor per entry of the last axis, [C]. Default: ones. */
  weight?: TensorInput;
  /** A factor on the positive targets of each entry of the last axis, [C]. Default: ones. */
  posWeight?: TensorInput;
}

/** Options of `losses.poisson`. */
export interface PoissonOptions {
  /** Whether the input is the logarithm of the rate. If so, the loss is exp(x) - y x; otherwise x - y log(x + eps). Default true. */
  logInput?: boolean;
  /** Whether to add Stirling's approximation of log(y!). Default false. */
  full?: boolean;
  /** Added to x inside the logarithm if `logInput` is false. Default 1e-8. */
  eps?: number;
}

/** Options of `losses.cosineEmbedding`. */
export interface CosineEmbeddingOptions {
  /** The cosine below which dissimilar pairs have no loss. Default 0. */
  margin?: number;
}

/** Options of `losses.triplet`. */
export interface TripletOptions {
  /** The margin by which the negative should be farther away than the positive. Default 1. */
  margin?: number;
}

/** Options of `losses.infoNCE`. */
export interface InfoNCEOptions {
  /** The factor on the cosines, which is the inverse of the temperature. Default 20. */
  scale?: number;
  /**
   * One id per row of `a`, or one per row of `b`. Rows with the same id are not negatives of each other. Needed with
   * dropout, which makes the vectors of equal inputs differ.
   */
  groups?: IndexInput;
}

/** Options of `losses.supervisedContrastive`. */
export interface SupervisedContrastiveOptions {
  /** The factor on the cosines, which is the inverse of the temperature. Default 10, as in the paper. */
  scale?: number;
}

/** Options of `losses.coSENT`. */
export interface CoSENTOptions {
  /** The factor on the cosines. Default 20. */
  scale?: number;
}

/** The losses. Inputs may be results of layers in training mode or plain tensors. Errors: `SHAPE_MISMATCH`, `INVALID_ARGUMENT`. */
export interface Losses {
  /**
   * -log(softmax(logits)[label]) of logits [..., C] and class indices [...] in [0, C). NaN if all labels are ignored, as in PyTorch.
   *
   * @example
   * heed.losses.crossEntropy([[2, 0], [0, 2]], [0, 1]).item(); // 0.1269
   */
  crossEntropy(logits: TensorInput, labels: IndexInput, options?: CrossEntropyOptions): Loss;
  /**
   * (input - target)^2 of two tensors of the same shape.
   *
   * @example
   * heed.losses.mse([1, 2], [1, 4]).item(); // 2
   */
  mse(input: TensorInput, target: TensorInput): Loss;
  /**
   * Binary cross entropy of logits [..., C] and targets of the same shape, in [0, 1].
   *
   * @example
   * heed.losses.bceWithLogits([[0, 2]], [[1, 1]]).item(); // 0.41
   */
  bceWithLogits(logits: TensorInput, target: TensorInput, options?: BceWithLogitsOptions): Loss;
  /**
   * Negative log-likelihood of the counts `target` under Poisson distributions; both tensors have the same shape.
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
   * max(0, |anchor - positive| - |anchor - negative| + margin) of tensors [..., E] of the same shape.
   *
   * @example
   * heed.losses.triplet([[0, 0]], [[0, 1]], [[3, 0]], { margin: 3 }).item(); // 1
   */
  triplet(anchor: TensorInput, positive: TensorInput, negative: TensorInput, options?: TripletOptions): Loss;
  /**
   * InfoNCE with in-batch negatives: a [N, E], b [M, E], M >= N. Row i of b belongs to row i of a; the other rows of b
   * are its negatives (van den Oord et al. 2018, arXiv:1807.03748). Row j of b is not a negative of row i of a if pair
   * j equals pair i, or if both have the same id in `groups`, which may have ids for all rows of b.
   *
   * @example
   * heed.losses.infoNCE([[1, 0], [0, 1]], [[1, 0], [0, 1]], { scale: 1 }).item(); // 0.313
   */
  infoNCE(a: TensorInput, b: TensorInput, options?: InfoNCEOptions): Loss;
  /**
   * Supervised contrastive loss for vectors x [..., E] and labels [...]: rows with the label of row i attract it, all
   * others repel it (Khosla et al. 2020, arXiv:2004.11362). For each row i, the mean over the other rows p with its
   * label of -log(exp(scale cos(x_i, x_p)) / sum of exp(scale cos(x_i, x_j))), where j runs over all rows except i. The
   * loss is the mean over the rows i that have such a p, or 0 if there are none.
   *
   * @example
   * heed.losses.supervisedContrastive([[1, 0], [1, 0], [0, 1]], [0, 0, 1], { scale: 1 }).item(); // 0.313
   */
  supervisedContrastive(x: TensorInput, labels: IndexInput, options?: SupervisedContrastiveOptions): Loss;
  /**
   * CoSENT loss for pairs of vectors a, b [..., E] and labels [...] that give their similarity: pairs with larger
   * labels should have larger cosines (Huang et al. 2024, doi:10.1109/TASLP.2024.3402087). The loss is log(1 + sum of
   * exp(scale (cos(a_i, b_i) - cos(a_j, b_j))) over all i, j with labels_i < labels_j). It is not a mean.
   *
   * @example
   * heed.losses.coSENT([[1, 0], [1, 0]], [[1, 0], [0, 1]], [0.2, 0.9], { scale: 1 }).item(); // 1.313
   */
  coSENT(a: TensorInput, b: TensorInput, labels: TensorInput, options?: CoSENTOptions): Loss;
}

/** The definition of a loss: its tensors, its labels if it takes any, and its options. */
interface LossDefinition {
  /** The names of its tensors. */
  readonly tensors: readonly string[];
  /** Reads the labels. */
  readonly labels?: (name: string, value: unknown) => unknown;
  readonly schema: Record<string, Reader<unknown>>;
  /**
   * In `fit`: the number of tensor arguments taken from axis 1 of the model's output. Default: the output is the first
   * argument, and the labels are the next.
   */
  readonly outputs?: number;
  /** In `fit`: the option as which the labels are passed. */
  readonly labelOption?: string;
  /** A label that is ignored. */
  readonly ignored?: number;
  /** Whether the loss relates the examples of a batch to each other. Default false. */
  readonly relatesExamples?: boolean;
  /** Whether a batch also needs two examples with the same label. Default false. */
  readonly needsPair?: boolean;
}

const notNegative = legal<number>('a number >= 0', (value) => typeof value === 'number' && value >= 0);
const groups: Reader<RawIndices> = (value, name) => readIndices(name, value);

/** @internal */
export const lossDefinitions: Record<keyof Losses, LossDefinition> = {
  crossEntropy: {
    tensors: ['logits'],
    labels: readIndices,
    schema: {
      ignoreIndex: optional((value, name) => integer(value, name, -(2 ** 31)), -100),
      labelSmoothing: optional(rate, 0),
      weight: optional(tensor, null),
    } satisfies Schema<CrossEntropyOptions>,
    ignored: -100,
  },
  mse: { tensors: ['input', 'target'], schema: {} },
  bceWithLogits: {
    tensors: ['logits', 'target'],
    schema: {
      weight: optional(tensor, null),
      posWeight: optional(tensor, null),
    } satisfies Schema<BceWithLogitsOptions>,
  },
  poisson: {
    tensors: ['input', 'target'],
    schema: {
      logInput: optional(flag, true),
      full: optional(flag, false),
      eps: optional(positive, 1e-8),
    } satisfies Schema<PoissonOptions>,
  },
  cosineEmbedding: {
    tensors: ['a', 'b'],
    labels: readTensor,
    schema: { margin: optional(finite, 0) } satisfies Schema<CosineEmbeddingOptions>,
    outputs: 2,
  },
  triplet: {
    tensors: ['anchor', 'positive', 'negative'],
    schema: { margin: optional(notNegative, 1) } satisfies Schema<TripletOptions>,
    outputs: 3,
  },
  infoNCE: {
    tensors: ['a', 'b'],
    schema: { scale: optional(positive, 20), groups: optional(groups, null) } satisfies Schema<InfoNCEOptions>,
    outputs: 2,
    labelOption: 'groups',
    relatesExamples: true,
  },
  supervisedContrastive: {
    tensors: ['x'],
    labels: readIndices,
    schema: { scale: optional(positive, 10) } satisfies Schema<SupervisedContrastiveOptions>,
    relatesExamples: true,
    needsPair: true,
  },
  coSENT: {
    tensors: ['a', 'b'],
    labels: readTensor,
    schema: { scale: optional(positive, 20) } satisfies Schema<CoSENTOptions>,
    outputs: 2,
    relatesExamples: true,
  },
};

/** @internal The names of the functions that `lossesOf` returned. */
export const lossNames = new WeakMap<object, string>();

/** @internal The losses of one runtime. */
export function lossesOf(tape: Tape): Losses {
  const { core } = tape;
  const losses = Object.entries(lossDefinitions).map(([name, { tensors, labels, schema }]) => {
    const loss = (...given: unknown[]): Loss => {
      const count = tensors.length;
      const constants = labels && { labels: labels(`losses.${name}: labels`, given[count]) };
      const named = Object.fromEntries(tensors.map((key, i) => [key, given[i] as TensorInput]));
      const options = given[labels ? count + 1 : count];
      return run(`losses.${name}`, named, schema, options, (raw, read) =>
        tape.record(null, (call) => {
          const variables = Object.fromEntries(tensors.map((key, i) => [key, call.input(key, raw[i]!)]));
          return new Loss(
            tape,
            call.output(core.recordLoss(call.graph, name, { ...variables, ...constants, ...read })),
          );
        }),
      );
    };
    lossNames.set(loss, name);
    return [name, loss];
  });
  return Object.fromEntries(losses);
}
