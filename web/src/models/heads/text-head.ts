/**
 * Classifiers apart from the model whose vectors they classify, so that many can share one model: a linear layer in a
 * file of a few kilobytes. The file is a safetensors file with `weight`, F32 [labels, E]; `bias`, F32 [labels]; `probe`,
 * F32 [1, E], the model's vector of a fixed text, by which the model is recognized; and metadata: `heed_head`, the
 * version of the format (1), `labels`, a JSON list, and `problem_type`. Imported on demand.
 */
import { describe, formatShape, guarded, invalid, invalidFile } from '../../base/error.js';
import { Tensor } from '../../base/tensor.js';
import { Unproxied } from '../../base/unproxied.js';
import { bytesOf } from '../../io/bytes.js';
import { memoryFile } from '../../io/memory.js';
import { readTensors, tensorOf, writeSafetensors } from '../../io/safetensors.js';
import type { ModelInput } from '../input.js';
import type { EmbedOptions, Prediction, PretrainedModel, TextHead } from '../model.js';
import { MIN_COSINES, PROBE } from '../probe.js';
import { dot } from '../quantized.js';

const FILE = 'head.safetensors';
const VERSION = '1';
const PROBLEMS = ['single_label_classification', 'multi_label_classification', 'regression'];

/** The values of a head. `weight`: [labels, E]. */
export interface HeadValues {
  labels: readonly string[];
  problemType: string;
  weight: Float32Array;
  bias: Float32Array;
}

class Loaded extends Unproxied implements TextHead {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'TextHead';

  readonly config: TextHead['config'];
  readonly #model: PretrainedModel;
  readonly #weight: Float32Array;
  readonly #bias: Float32Array;

  constructor(model: PretrainedModel, { labels, problemType, weight, bias }: HeadValues) {
    super();
    this.config = { labels: [...labels], problemType };
    this.#model = model;
    this.#weight = weight;
    this.#bias = bias;
  }

  async predict(
    head: 'sequence-classification',
    input: ModelInput,
    options?: EmbedOptions,
  ): Promise<Pick<Prediction, 'logits' | 'truncated'>> {
    if (head !== 'sequence-classification')
      throw invalid('predict: head', "'sequence-classification', which this head is", describe(head), 'UNSUPPORTED');
    const { data, shape, truncated } = await this.#model.embed(input, options);
    const [count, width] = shape as [number, number];
    const labels = this.#bias.length;
    const at = (i: number) =>
      dot(data, Math.floor(i / labels), this.#weight, i % labels, width) + this.#bias[i % labels]!;
    return {
      logits: new Tensor(
        Float32Array.from({ length: count * labels }, (_, i) => at(i)),
        [count, labels],
      ),
      truncated,
    };
  }
}

const probeOf = async (model: PretrainedModel) => (await model.embed(PROBE, { truncation: true })).data;

/** The file of a head on the vectors of a model. */
export async function headFile(
  model: PretrainedModel,
  { labels, problemType, weight, bias }: HeadValues,
): Promise<Uint8Array<ArrayBuffer>> {
  const probe = await probeOf(model);
  const tensors = [
    { name: 'weight', dtype: 'F32', shape: [labels.length, probe.length], data: weight },
    { name: 'bias', dtype: 'F32', shape: [labels.length], data: bias },
    { name: 'probe', dtype: 'F32', shape: [1, probe.length], data: probe },
  ];
  return writeSafetensors(tensors, { heed_head: VERSION, labels: JSON.stringify(labels), problem_type: problemType });
}

/** Reads the file of a head, and checks that it belongs to the model. */
export async function readHead(model: PretrainedModel, given: ArrayBufferLike | ArrayBufferView): Promise<TextHead> {
  const bytes = guarded('head', () => bytesOf(given));
  if (!bytes) throw invalid('head', 'the bytes that `save({ head: true })` returned', describe(given));
  let metadata: Record<string, string> = {};
  const tensors = await readTensors(memoryFile(FILE, bytes), (found) => {
    metadata = found;
  });
  const { heed_head: version, labels: json = '', problem_type: problemType = '' } = metadata;
  if (version !== VERSION)
    throw invalidFile(FILE, `a classifier's head of version ${VERSION} in the metadata's heed_head`, describe(version));
  const labels = labelsIn(json);
  if (!PROBLEMS.includes(problemType))
    throw invalidFile(FILE, `one of ${PROBLEMS.join(', ')} in the metadata's problem_type`, describe(problemType));
  const probe = await probeOf(model);
  const width = probe.length;
  const floats = (name: string, shape: number[]) => {
    const tensor = tensors.get(name);
    const isSame = tensor?.dtype === 'F32' && String(tensor.shape) === String(shape);
    const values = isSame ? new Float32Array(tensor.bytes.slice().buffer) : new Float32Array();
    if (isSame && values.every(Number.isFinite)) return values;
    const got = !tensor ? 'none' : isSame ? 'other numbers' : `${tensor.dtype} ${formatShape(tensor.shape)}`;
    throw invalidFile(tensorOf(FILE, name), `finite numbers, F32 ${formatShape(shape)}, for this model`, got);
  };
  const saved = floats('probe', [1, width]);
  const product = (a: Float32Array, b: Float32Array) => dot(a, 0, b, 0, width);
  const cosine = product(saved, probe) / Math.sqrt(product(saved, saved) * product(probe, probe));
  // Weights in 4 bits may stand on either side: the file does not say.
  const least = MIN_COSINES[4]!;
  if (!(cosine >= least))
    throw invalidFile(
      FILE,
      'the head of this model',
      `that of another: vectors of the same text have a cosine of ${(cosine || 0).toFixed(4)}, less than ${least}`,
      'Load it with the model on whose vectors it was trained',
    );
  const values = { weight: floats('weight', [labels.length, width]), bias: floats('bias', [labels.length]) };
  return new Loaded(model, { labels, problemType, ...values });
}

function labelsIn(json: string): string[] {
  try {
    const labels: unknown = JSON.parse(json);
    const isList = Array.isArray(labels) && labels.length > 0 && labels.every((label) => typeof label === 'string');
    if (isList) return labels as string[];
  } catch {
    // reported below
  }
  throw invalidFile(FILE, "a JSON list of names in the metadata's labels", describe(json.slice(0, 80)));
}
