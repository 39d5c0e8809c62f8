/**
 * The layers of a GLiNER after the encoder (Zaratiana et al. 2024, arXiv:2311.08526), as in `UniEncoderSpanModel` of
 * the Python package gliner. Imported on demand.
 *
 * Notation: W words, K maximum number of words per span, C labels, D width of word vectors, E width of the encoder.
 */
import { invalidFile } from '../../base/error.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import type { GlinerConfig } from '../families/gliner-config.js';
import { Chain, filled, makeDense } from './task-heads.js';

/** The layers after the encoder. */
export class SpanScorer {
  readonly config: GlinerConfig;
  readonly #calls: RawLayers;
  readonly #owned: { delete(): void }[] = [];
  readonly #projection: RawTensorLayer | null = null;
  readonly #recurrent: RawTensorLayer | null = null;
  /**
   * Projections of a span's first and last word, each followed by its half of the first output layer: [W,D] -> [W,4D].
   */
  readonly #start: Chain;
  readonly #end: Chain;
  /** Maps label vectors [C,D] to [C,4D] by the transposed weight of the second output layer. */
  readonly #labels: Chain;
  /** The bias of the second output layer, [D], and the projection of labels before it. */
  readonly #bias: Float32Array;
  readonly #labelProjection: Chain;

  constructor(calls: RawLayers, tensors: ReadonlyMap<string, RawTensor>, config: GlinerConfig, encoderWidth: number) {
    const { width } = config;
    this.config = config;
    this.#calls = calls;
    const read = (name: string, shape: number[]): RawTensor => {
      const tensor = tensors.get(name);
      const got = tensor ? `[${tensor.shape.join(',')}]` : 'none';
      if (got === `[${shape.join(',')}]`) return tensor!;
      throw invalidFile(`tensor '${name}'`, `shape [${shape.join(',')}], as gliner_config.json says`, got);
    };
    const weights = (name: string, inputs: number, outputs: number) => ({
      name,
      weight: read(`${name}.weight`, [outputs, inputs]),
      bias: read(`${name}.bias`, [outputs]),
    });
    const dense = (name: string, inputs: number, outputs: number, activation = 'identity') =>
      makeDense(calls, weights(name, inputs, outputs), activation);
    const own = <T extends { delete(): void }>(made: T): T => {
      this.#owned.push(made);
      return made;
    };
    const wide = 4 * width;
    try {
      if (encoderWidth !== width) this.#projection = own(dense('token_rep_layer.projection', encoderWidth, width));
      const numLayers = config.recurrentLayers;
      if (numLayers > 0) {
        const name = (own: string) => `rnn.lstm.${own}`;
        read(name(`bias_ih_l${numLayers - 1}`), [2 * width]); // before memory is allocated for all layers
        const options = { inputSize: width, hiddenSize: width / 2, numLayers, bias: true, bidirectional: true };
        this.#recurrent = own(new calls.LSTM(options));
        const tensors = this.#recurrent.parameters().map((one) => read(name(one.name), one.shape));
        filled(this.#recurrent, tensors);
      }
      const spans = 'span_rep_layer.span_rep_layer.';
      const first = weights(`${spans}out_project.0`, 2 * width, wide);
      const second = weights(`${spans}out_project.3`, wide, width);
      // relu([start, end]) Wᵀ = relu(start) W₁ᵀ + relu(end) W₂ᵀ, so compute it per word instead of per span.
      const half = (from: number, bias: RawTensor | undefined) => ({
        name: first.name,
        weight: { shape: [wide, width], data: columns(first.weight, from, width) },
        bias,
      });
      const project = (name: string, from: number, bias: RawTensor | undefined) =>
        own(
          Chain.of([
            () => dense(`${spans}${name}.0`, width, wide, 'relu'),
            () => dense(`${spans}${name}.3`, wide, width, 'relu'),
            () => makeDense(calls, half(from, bias), 'identity'),
          ]),
        );
      this.#start = project('project_start', 0, first.bias);
      this.#end = project('project_end', width, undefined);
      this.#labelProjection = own(
        Chain.of([
          () => dense('prompt_rep_layer.0', width, wide, 'relu'),
          () => dense('prompt_rep_layer.3', wide, width),
        ]),
      );
      // (W x + b) · label = x · (Wᵀ label) + b · label, so multiply by W once per label instead of once per span.
      const turned = { shape: [wide, width], data: transposed(second.weight) };
      this.#labels = own(
        Chain.of([() => makeDense(calls, { ...second, weight: turned, bias: undefined }, 'identity')]),
      );
      this.#bias = second.bias.data;
    } catch (error) {
      this.delete();
      throw error;
    }
  }

  /**
   * Scores spans. `words` [W,E] and `labels` [C,E] are the encoder's rows. Calls `found(i, logits)` with the logits
   * [k,C] of the k = min(K, W - i) spans that begin at word i.
   */
  async score(
    words: RawTensor,
    labels: RawTensor,
    found: (first: number, logits: Float32Array) => void,
    yieldToEventLoop: () => Promise<void>,
  ): Promise<void> {
    const { maxWidth, width } = this.config;
    const projected = (rows: RawTensor) => this.#projection?.forward({ x: rows }) ?? rows;
    let x = projected(words);
    if (this.#recurrent) {
      x = this.#recurrent.forward({ x });
      await yieldToEventLoop();
    }
    const starts = this.#start.forward(x).data;
    await yieldToEventLoop();
    const ends = this.#end.forward(x).data;
    await yieldToEventLoop();
    const label = this.#labelProjection.forward(projected(labels));
    const weight = this.#labels.forward(label);
    const [count, wide] = weight.shape as [number, number];
    const bias = Float32Array.from({ length: count }, (_, c) =>
      this.#bias.reduce((sum, b, i) => sum + b * label.data[c * width + i]!, 0),
    );
    const layer = filled(
      new this.#calls.Linear({ inFeatures: wide, outFeatures: count, bias: true, activation: 'identity' }),
      [weight, { shape: [count], data: bias }],
    );
    try {
      const total = words.shape[0]!;
      const perStep = Math.max(1, Math.floor(SPANS / maxWidth));
      for (let from = 0; from < total; from += perStep) {
        const to = Math.min(total, from + perStep);
        const lengths = Array.from({ length: to - from }, (_, i) => Math.min(maxWidth, total - from - i));
        const rows = lengths.reduce((sum, length) => sum + length, 0);
        const spans = new Float32Array(rows * wide);
        let at = 0;
        lengths.forEach((length, i) => {
          const start = starts.subarray((from + i) * wide, (from + i + 1) * wide);
          for (let k = 0; k < length; k++) {
            const end = (from + i + k) * wide;
            for (let j = 0; j < wide; j++, at++) spans[at] = Math.max(0, start[j]! + ends[end + j]!);
          }
        });
        const logits = layer.forward({ x: { shape: [rows, wide], data: spans } }).data;
        let row = 0;
        lengths.forEach((length, i) => {
          found(from + i, logits.subarray(row * count, (row + length) * count));
          row += length;
        });
        await yieldToEventLoop();
      }
    } finally {
      layer.delete();
    }
  }

  delete(): void {
    for (const part of this.#owned.splice(0)) part.delete();
  }
}

/** The number of spans to score at a time. */
const SPANS = 256;

function columns({ shape, data }: RawTensor, from: number, count: number): Float32Array {
  const [rows, width] = shape as [number, number];
  const out = new Float32Array(rows * count);
  for (let i = 0; i < rows; i++) out.set(data.subarray(i * width + from, i * width + from + count), i * count);
  return out;
}

function transposed({ shape, data }: RawTensor): Float32Array {
  const [rows, width] = shape as [number, number];
  const out = new Float32Array(data.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < width; j++) out[j * rows + i] = data[i * width + j]!;
  return out;
}
