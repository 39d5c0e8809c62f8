/**
 * Losses. Those that PyTorch also has follow its functions. Unless stated otherwise, a loss is the mean over the
 * examples.
 */
import { type IndexInput, readIndices } from '../base/indices.js';
import {
  finite,
  flag,
  formerly,
  integer,
  legal,
  notNegative,
  optional,
  positive,
  type Reader,
  rate,
  type Schema,
  tensor,
} from '../base/options.js';
import { readTensor, type TensorInput } from '../base/tensor.js';
import type { RawIndices, RawTensor } from '../base/wasm/core.js';
import { run } from '../layers/functions.js';
import { type Averaged, Loss } from './graph/loss.js';
import type { Tape } from './graph/tape.js';

/** Weights of the examples of a loss. */
export interface WeightedOptions {
  /**
   * Weights of the examples, or of the loss's entries, finite and >= 0: a tensor whose axes are the first axes of the
   * entries, such as [N] for entries [N, ...]; extents of 1 are repeated. The loss is then the weighted mean, divided by the
   * sum of the weights as in scikit-learn, or 0 if all weights are 0. Default: ones.
   */
  exampleWeights?: TensorInput | undefined;
}

/** Options of losses of a mean that grows with an exposure, such as the insured years of a policy. */
export interface ExposureOptions extends WeightedOptions {
  /** Positive factors on the modelled mean, with axes as for `exampleWeights`. Default: ones. */
  exposure?: TensorInput | undefined;
}

/** Options of `losses.huber`. */
export interface HuberOptions extends WeightedOptions {
  /** The absolute difference at which the loss changes from quadratic to linear. Default 1. */
  delta?: number | undefined;
}

/** Options of `losses.quantile`. */
export interface QuantileOptions extends WeightedOptions {
  /** The probability, in (0, 1), with which the target should be below the input. Default 0.5, the median. */
  quantile?: number | undefined;
}

/** Options of `losses.gaussian`. */
export interface GaussianOptions extends WeightedOptions {
  /** Whether to add the constant log(2 pi) / 2. Default false. */
  full?: boolean | undefined;
  /** Smaller variances are replaced by this number. Default 1e-6. */
  eps?: number | undefined;
}

/** Options of `losses.gamma`. */
export interface GammaOptions extends ExposureOptions {
  /** Whether the input is the logarithm of the mean. If so, the loss is x + y exp(-x); otherwise log(x) + y / x. Default true. */
  logInput?: boolean | undefined;
}

/** Options of `losses.crossEntropy`. */
export interface CrossEntropyOptions extends WeightedOptions {
  /** The label of examples to ignore. Default -100. */
  ignoreIndex?: number | undefined;
  /** The fraction of the target, in [0, 1], that is spread evenly over all classes. Default 0. */
  labelSmoothing?: number | undefined;
  /** One factor per class, [C]; the mean is weighted by these factors. PyTorch's `weight`. Default: ones. */
  classWeights?: TensorInput | undefined;
}

/** Options of `losses.bceWithLogits`. */
export interface BceWithLogitsOptions extends WeightedOptions {
  /** One factor per class, [C], on the loss of its logit; the divisor of the mean is not changed. PyTorch's `weight`. Default: ones. */
  classWeights?: TensorInput | undefined;
  /** One factor per class, [C], on the term of its positive targets alone, as PyTorch's `pos_weight`. Default: ones. */
  posWeight?: TensorInput | undefined;
}

/** Options of `losses.poisson`. */
export interface PoissonOptions extends ExposureOptions {
  /** Whether the input is the logarithm of the rate. If so, the loss is exp(x) - y x; otherwise x - y log(x + eps). Default true. */
  logInput?: boolean | undefined;
  /** Whether to add Stirling's approximation of log(y!). Default false. */
  full?: boolean | undefined;
  /** Added to x inside the logarithm if `logInput` is false. Default 1e-8. */
  eps?: number | undefined;
}

/** Options of `losses.cosineEmbedding`. */
export interface CosineEmbeddingOptions extends WeightedOptions {
  /** The cosine below which dissimilar pairs have no loss. Default 0. */
  margin?: number | undefined;
}

/** Options of `losses.triplet`. */
export interface TripletOptions extends WeightedOptions {
  /** The margin by which the negative should be farther away than the positive. Default 1. */
  margin?: number | undefined;
}

/** Options of `losses.infoNCE`. */
export interface InfoNCEOptions {
  /** The factor on the cosines, which is the inverse of the temperature. Default 20. */
  scale?: number | undefined;
  /**
   * One id per row of `a`, or one per row of `b`. Rows with the same id are not negatives of each other. Needed with
   * dropout, which makes the vectors of equal inputs differ.
   */
  groups?: IndexInput | undefined;
}

/** Options of `losses.supervisedContrastive`. */
export interface SupervisedContrastiveOptions {
  /** The factor on the cosines, which is the inverse of the temperature. Default 10, as in the paper. */
  scale?: number | undefined;
}

/** Options of `losses.coSENT`. */
export interface CoSENTOptions {
  /** The factor on the cosines. Default 20. */
  scale?: number | undefined;
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
  mse(input: TensorInput, target: TensorInput, options?: WeightedOptions): Loss;
  /**
   * |input - target| of two tensors of the same shape: `torch.nn.L1Loss`.
   *
   * @example
   * heed.losses.mae([1, 2], [1, 4], { exampleWeights: [3, 1] }).item(); // 0.5
   */
  mae(input: TensorInput, target: TensorInput, options?: WeightedOptions): Loss;
  /**
   * d^2 / 2 of the difference d = input - target where |d| <= delta, delta (|d| - delta / 2) elsewhere:
   * `torch.nn.HuberLoss`. Both tensors have the same shape.
   *
   * @example
   * heed.losses.huber([1, 2], [1, 4], { delta: 1 }).item(); // 0.75
   */
  huber(input: TensorInput, target: TensorInput, options?: HuberOptions): Loss;
  /**
   * The pinball loss of quantile q: q (target - input) where the target is above the input, (1 - q) (input - target)
   * elsewhere (Koenker, Bassett 1978, doi:10.2307/1913643; scikit-learn's `mean_pinball_loss`). Both tensors have the same
   * shape.
   *
   * @example
   * heed.losses.quantile([1, 2], [1, 4], { quantile: 0.9 }).item(); // 0.9
   */
  quantile(input: TensorInput, target: TensorInput, options?: QuantileOptions): Loss;
  /**
   * Negative log-likelihood of `target` under normal distributions: (log v + (mean - target)^2 / v) / 2 for the variance
   * v, as `torch.nn.GaussianNLLLoss`. All tensors have the same shape. Variances are not negative, so let the model return
   * their logarithm, and pass `heed.exp` of it.
   *
   * @example
   * heed.losses.gaussian([1, 2], [1, 4], [1, 4]).item(); // 0.597
   */
  gaussian(mean: TensorInput, target: TensorInput, variance: TensorInput, options?: GaussianOptions): Loss;
  /**
   * Half the deviance of the positive numbers `target` under Gamma distributions, up to a constant: x + y exp(-x) of the
   * log mean x, which is scikit-learn's `HalfGammaLoss`. Both tensors have the same shape. With `exposure` e, the mean is
   * e exp(x).
   *
   * @example
   * heed.losses.gamma([0, 1], [1, 2]).item(); // 1.368
   */
  gamma(input: TensorInput, target: TensorInput, options?: GammaOptions): Loss;
  /**
   * Binary cross entropy of logits [..., C] and targets of the same shape, in [0, 1].
   *
   * @example
   * heed.losses.bceWithLogits([[0, 2]], [[1, 1]]).item(); // 0.41
   */
  bceWithLogits(logits: TensorInput, target: TensorInput, options?: BceWithLogitsOptions): Loss;
  /**
   * Negative log-likelihood of the counts `target` under Poisson distributions, up to a constant; both tensors have the
   * same shape. With `exposure` e, the mean is e exp(x), and the loss e exp(x) - y (x + log e).
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
  readonly labels?: ((name: string, value: unknown) => unknown) | undefined;
  readonly schema: Record<string, Reader<unknown>>;
  /**
   * In `fit`: the number of tensor arguments taken from axis 1 of the model's output. Default: the output is the first
   * argument, and the labels are the next.
   */
  readonly outputs?: number | undefined;
  /** In `fit`: the place of the labels among the arguments, if it is not after the tensors that are taken from the output. */
  readonly labelsAt?: number | undefined;
  /** In `fit`: the option as which the labels are passed. */
  readonly labelOption?: string | undefined;
  /** A label that is ignored. */
  readonly ignored?: number | undefined;
  /** The number of axes at the end of the first tensor that belong to one entry of the mean. Default 0. */
  readonly entryAxes?: number | undefined;
  /** Whether the loss relates the examples of a batch to each other. Default false. */
  readonly relatesExamples?: boolean | undefined;
  /** Whether a batch also needs two examples with the same label. Default false. */
  readonly needsPair?: boolean | undefined;
}

const probability = legal<number>(
  'a number above 0 and below 1',
  (value) => typeof value === 'number' && value > 0 && value < 1,
);
const groups: Reader<RawIndices> = (value, name) => readIndices(name, value);

const weighted = { exampleWeights: optional(tensor, null), ...formerly({ weights: 'exampleWeights' }) };
const byClass = {
  ...weighted,
  classWeights: optional(tensor, null),
  ...formerly({ weight: 'classWeights', weights: 'exampleWeights' }),
};
const withExposure = { ...weighted, exposure: optional(tensor, null) };

/** @internal */
export const lossDefinitions: Record<keyof Losses, LossDefinition> = {
  crossEntropy: {
    tensors: ['logits'],
    labels: readIndices,
    schema: {
      ignoreIndex: optional((value, name) => integer(value, name, -(2 ** 31)), -100),
      labelSmoothing: optional(rate, 0),
      ...byClass,
    } satisfies Schema<CrossEntropyOptions>,
    ignored: -100,
    entryAxes: 1,
  },
  mse: { tensors: ['input', 'target'], schema: weighted satisfies Schema<WeightedOptions> },
  mae: { tensors: ['input', 'target'], schema: weighted satisfies Schema<WeightedOptions> },
  huber: {
    tensors: ['input', 'target'],
    schema: { delta: optional(positive, 1), ...weighted } satisfies Schema<HuberOptions>,
  },
  quantile: {
    tensors: ['input', 'target'],
    schema: { quantile: optional(probability, 0.5), ...weighted } satisfies Schema<QuantileOptions>,
  },
  gaussian: {
    tensors: ['mean', 'target', 'variance'],
    schema: {
      full: optional(flag, false),
      eps: optional(positive, 1e-6),
      ...weighted,
    } satisfies Schema<GaussianOptions>,
    outputs: 2,
    labelsAt: 1,
  },
  gamma: {
    tensors: ['input', 'target'],
    schema: { logInput: optional(flag, true), ...withExposure } satisfies Schema<GammaOptions>,
  },
  bceWithLogits: {
    tensors: ['logits', 'target'],
    schema: { posWeight: optional(tensor, null), ...byClass } satisfies Schema<BceWithLogitsOptions>,
  },
  poisson: {
    tensors: ['input', 'target'],
    schema: {
      logInput: optional(flag, true),
      full: optional(flag, false),
      eps: optional(positive, 1e-8),
      ...withExposure,
    } satisfies Schema<PoissonOptions>,
  },
  cosineEmbedding: {
    tensors: ['a', 'b'],
    labels: readTensor,
    schema: { margin: optional(finite, 0), ...weighted } satisfies Schema<CosineEmbeddingOptions>,
    outputs: 2,
    entryAxes: 1,
  },
  triplet: {
    tensors: ['anchor', 'positive', 'negative'],
    schema: { margin: optional(notNegative, 1), ...weighted } satisfies Schema<TripletOptions>,
    outputs: 3,
    entryAxes: 1,
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

/** The options of a loss that affect its mean, after reading. */
interface MeanOptions {
  readonly ignoreIndex?: number | undefined;
  readonly classWeights?: RawTensor | null | undefined;
  readonly exampleWeights?: RawTensor | null | undefined;
}

/** The index in a tensor whose axes are the first axes of `shape`, with extents of 1 repeated, of entry `n` of `shape`. */
function repeated(axes: readonly number[], shape: readonly number[]): (n: number) => number {
  return (n) => {
    let [rest, index, stride] = [n, 0, 1];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const extent = axes[axis] ?? 1;
      if (extent > 1) index += (rest % shape[axis]!) * stride;
      stride *= extent;
      rest = Math.floor(rest / shape[axis]!);
    }
    return index;
  };
}

/** What a loss is the mean over; null if it relates the examples of a batch to each other. */
function averagedOf(
  { relatesExamples, entryAxes = 0, ignored }: LossDefinition,
  shape: readonly number[],
  labels: RawIndices | undefined,
  { ignoreIndex, classWeights, exampleWeights: weights }: MeanOptions,
): Averaged | null {
  if (relatesExamples) return null;
  const entries = shape.slice(0, shape.length - entryAxes);
  const count = entries.reduce((product, extent) => product * extent, 1);
  if (ignored === undefined) {
    const mean = () => (weights ? weights.data.reduce((sum, each) => sum + each, 0) / weights.data.length : 1);
    return { share: () => count * mean(), ignored: null };
  }
  const at = weights && repeated(weights.shape, entries);
  const share = () => {
    let sum = 0;
    for (const [n, label] of labels!.data.entries())
      if (label !== ignoreIndex)
        sum += (classWeights ? classWeights.data[label]! : 1) * (at ? weights!.data[at(n)]! : 1);
    return sum;
  };
  return { share, ignored: ignoreIndex! };
}

/** @internal The losses of one runtime. */
export function lossesOf(tape: Tape): Losses {
  const { core } = tape;
  const losses = Object.entries(lossDefinitions).map(([name, definition]) => {
    const { tensors, labels, schema } = definition;
    const loss = (...given: unknown[]): Loss => {
      const count = tensors.length;
      const constants = labels && { labels: labels(`losses.${name}: labels`, given[count]) };
      const named = Object.fromEntries(tensors.map((key, i) => [key, given[i] as TensorInput]));
      const options = given[labels ? count + 1 : count];
      return run(`losses.${name}`, named, schema, options, (raw, read) =>
        tape.record(null, (call) => {
          const variables = Object.fromEntries(tensors.map((key, i) => [key, call.input(key, raw[i]!)]));
          const output = call.output(core.recordLoss(call.graph, name, { ...variables, ...constants, ...read }));
          const given = constants?.labels as RawIndices | undefined;
          return new Loss(tape, output, averagedOf(definition, raw[0]!.shape, given, read as MeanOptions));
        }),
      );
    };
    lossNames.set(loss, name);
    return [name, loss];
  });
  return Object.fromEntries(losses);
}
