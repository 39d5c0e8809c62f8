/**
 * A model that embeds images: an image encoder and its head and, in CLIP and SigLIP, a text encoder. It implements the
 * text encoder's interface, so that the loader and the runner need no special case.
 * Notation: L rows of an image (class token and register tokens, if any, then patch tokens), E width.
 */

import { calling, formatShape, HeedError, invalid, invalidFile } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import type { SignalLike } from '../base/platform.js';
import type {
  Core,
  RawEncoderModel,
  RawEncoderModelConfig,
  RawEncoding,
  RawRows,
  RawSites,
  RawTensor,
  RawTensorLayer,
} from '../base/wasm/core.js';
import { IMAGE_SETTINGS, INPUT_SETTINGS } from '../io/file-names.js';
import { concatenate, type ModelFolder } from '../io/files.js';
import { Settings } from '../io/settings.js';
import type { ModelDevice } from '../models/device.js';
import { VISION } from '../models/families/family.js';
import {
  type LayerStep,
  type ModelStep,
  modelOf,
  type PoolingStep,
  TOKENS,
  VECTORS,
} from '../models/families/steps.js';
import { makeDense, makeNorm } from '../models/heads/task-heads.js';
import type { Completion, ImageCalls, ImageEncoder, ImagesOf } from '../models/image-encoder.js';
import type { Row, RowSteps } from '../models/input.js';
import { type DeviceLayers, type PieceHooks, type PieceOptions, runLayers } from '../models/run.js';
import { AttentionPooling } from './attention-pooling.js';
import { interpolated, patchAngles } from './image-positions.js';
import type { Values } from './pixels.js';
import { Preprocessing } from './preprocessing.js';
import type { ImageFamily } from './vision-config.js';

export class ImageTextEncoder implements RawEncoderModel, ImageEncoder {
  /** Set once the encoder has been made. */
  images!: ImageCalls;
  device: ModelDevice | null = null;
  readonly #text: RawEncoderModel | null;
  readonly #vision: RawEncoderModel;
  readonly #textParameters: number;
  readonly #heads: { delete(): void }[] = [];
  /** The padding token of SigLIP's texts. */
  #padId = 0;
  #padToken = '';
  #norm: RawTensorLayer | null = null;
  #projection: RawTensorLayer | null = null;
  #pooling: AttentionPooling | null = null;
  #pooler: RawTensorLayer | null = null;
  #classifier: RawTensorLayer | null = null;
  #vectorWidth = 0;
  #isDeleted = false;
  #positions: { key: string; rows: RawTensor } | null = null;
  /** null: the folder has no preprocessing settings. */
  preprocessing: Preprocessing | null = null;

  constructor(
    readonly core: Core,
    readonly about: ImageFamily,
    readonly config: RawEncoderModelConfig,
    make: Parameters<ImagesOf>[1],
  ) {
    this.#text = about.text && make(core, config);
    try {
      this.#vision = make(core, { ...about.vision, int8: config.int8 });
    } catch (error) {
      this.#text?.delete();
      throw error;
    }
    this.#textParameters = this.#text?.parameters().length ?? 0;
  }

  /** The width of the image vectors. */
  get vectorWidth(): number {
    return this.#vectorWidth;
  }

  parameters() {
    const named = this.#vision.parameters().map((parameter) => ({ ...parameter, name: VISION + parameter.name }));
    return [...(this.#text?.parameters() ?? []), ...named];
  }

  #at(index: number): [RawEncoderModel, number] {
    const own = index - this.#textParameters;
    return own < 0 ? [this.#text!, index] : [this.#vision, own];
  }

  readParameter(index: number): Float32Array {
    const [module, own] = this.#at(index);
    return module.readParameter(own);
  }

  writeParameter(
    index: number,
    ...rest: Parameters<RawEncoderModel['writeParameter']> extends [number, ...infer R] ? R : never
  ): void {
    const [module, own] = this.#at(index);
    module.writeParameter(own, ...rest);
  }

  setTraining(): void {}
  seed(): void {}
  initialize(): void {}
  isRunning(): boolean {
    return (this.#text?.isRunning() ?? false) || this.#vision.isRunning();
  }

  begin(...batch: Parameters<RawEncoderModel['begin']>): RawEncoding {
    return this.#requireText().begin(...batch);
  }

  beginImages(...images: Parameters<RawEncoderModel['beginImages']>): RawEncoding {
    return this.#vision.beginImages(...images);
  }

  wordLogits(x: RawTensor): RawTensor {
    return this.#requireText().wordLogits(x);
  }

  /** Only of the text encoder's parameters, which are the first ones. */
  recordInputs(parameters: readonly number[]): void {
    this.#requireText().recordInputs(parameters);
  }

  inputGram(i: number): Float32Array {
    return this.#requireText().inputGram(i);
  }

  #requireText(): RawEncoderModel {
    if (this.#text) return this.#text;
    throw new HeedError(
      'UNSUPPORTED',
      `texts: '${this.about.type}' has no text encoder. Embed images with embedImages()`,
    );
  }

  delete(): void {
    this.#isDeleted = true;
    for (const head of this.#heads.splice(0)) head.delete();
    this.#text?.delete();
    this.#vision.delete();
  }

  /**
   * Adapts the rows of texts to the family. `isText` is false for token ids, which are run as given; `isPooled`: only
   * the last row is used.
   */
  *textRows(rows: RowSteps, isText: boolean, isPooled: boolean): Generator<Row | null> {
    this.#requireText();
    const { end } = this.about.text!;
    for (const row of rows) {
      if (!row) yield null;
      else if (end === undefined) yield isText ? this.#padded(row) : row;
      else yield isPooled ? cutAtEnd(row, end) : row;
    }
  }

  /** Pads SigLIP's texts to the maximum length. Unlike in other families, padding is attended to. */
  #padded(row: Row): Row {
    const { maxPositions } = this.config;
    const filler = <T>(value: T) => new Array<T>(Math.max(0, maxPositions - row.ids.length)).fill(value);
    const token = this.#padToken;
    return {
      ...row,
      ids: [...row.ids, ...filler(this.#padId)],
      columns: Array.from({ length: maxPositions }, (_, i) => i),
      length: maxPositions,
      tokens: [...row.tokens, ...filler(token)],
      offsets: [...row.offsets, ...filler<[number, number]>([0, 0])],
      parts: [...row.parts, ...filler(null)],
    };
  }

  /** Makes the layers after the encoders, once the encoders' parameters have been written. */
  async complete({ heads, folder, signal, sentence, tokenizer, tokenizerSettings }: Completion): Promise<void> {
    const { type, text, vision, head, pooling } = this.about;
    const { embedDim } = vision;
    const take = (name: string, shape?: number[]): RawTensor => {
      const tensor = heads.get(name);
      const expected = shape ? formatShape(shape) : 'a tensor';
      if (!tensor)
        throw invalidFile('model.safetensors', `'${name}' of shape ${expected}, as config.json says`, 'none');
      if (shape && tensor.data.length !== shape.reduce((a, b) => a * b))
        throw invalidFile(`tensor '${name}'`, `${expected}, as config.json says`, formatShape(tensor.shape));
      return shape ? { ...tensor, shape } : tensor;
    };
    const own = <Layer extends { delete(): void }>(layer: Layer): Layer => {
      this.#heads.push(layer);
      return layer;
    };
    this.#vectorWidth = embedDim;
    if (head.norm) {
      const [weight, bias] = ['weight', 'bias'].map((part) => take(`${head.norm}.${part}`, [embedDim]));
      this.#norm = own(makeNorm(this.core, { name: head.norm, weight: weight!, bias }, vision.eps));
    }
    if (head.projection) {
      const name = head.projection;
      const [width = 0] = take(`${name}.weight`).shape;
      const weight = take(`${name}.weight`, [width, embedDim]);
      this.#projection = own(makeDense(this.core, { name, weight, bias: heads.get(`${name}.bias`) }, 'identity'));
      this.#vectorWidth = width;
    }
    const { pooler, classifier } = head;
    if (pooler && heads.has(`${pooler.name}.weight`)) {
      const { name, activation } = pooler;
      const [weight, bias] = [take(`${name}.weight`, [embedDim, embedDim]), take(`${name}.bias`, [embedDim])];
      this.#pooler = own(makeDense(this.core, { name, weight, bias }, activation));
    }
    if (classifier && heads.has(`${classifier.name}.weight`)) {
      const { name, rows } = classifier;
      const [labels = 0] = take(`${name}.weight`).shape;
      const weight = take(`${name}.weight`, [labels, rows === 'class' ? embedDim : 2 * embedDim]);
      this.#classifier = own(makeDense(this.core, { name, weight, bias: take(`${name}.bias`, [labels]) }, 'identity'));
    }
    if (head.pooling) this.#pooling = new AttentionPooling(this.core, vision, head.pooling, take, own);
    const { steps } = sentence;
    const model: ModelStep = { ...modelOf(steps), from: ['last_hidden_state'], output: TOKENS };
    const pooled: PoolingStep = {
      kind: 'pooling',
      path: '',
      input: TOKENS,
      output: VECTORS,
      modes: [pooling],
      poolsPrompt: true,
    };
    const others = steps.filter(({ kind }) => kind !== 'model' && kind !== 'pooling');
    const layers: LayerStep[] = [];
    if (text) {
      const bias = heads.get(`${text.projection}.bias`);
      const [outFeatures, inFeatures] = [this.#vectorWidth, this.config.embedDim]; // one space with images
      const tensors = [take(`${text.projection}.weight`, [outFeatures, inFeatures]), ...(bias ? [bias] : [])];
      layers.push({
        kind: 'dense',
        path: '',
        input: VECTORS,
        output: VECTORS,
        inFeatures,
        outFeatures,
        bias: bias !== undefined,
        activation: 'identity',
        residual: false,
        tensors,
      });
      const given = tokenizerSettings?.get('pad_token') as string | { content?: string | undefined } | undefined;
      const token = typeof given === 'object' ? given.content : given;
      this.#padId = (typeof token === 'string' ? tokenizer?.idOf(token) : undefined) ?? text.padId ?? 0;
      this.#padToken = tokenizer?.token(this.#padId) ?? '';
    }
    sentence.steps = [model, pooled, ...layers, ...others];
    heads.clear();
    this.preprocessing = await preprocessingIn(type, folder, sentence.modelFolder, signal);
  }

  /** The number of rows and columns of an image's patches. */
  #gridOf({ height, width }: Values): [rows: number, columns: number] {
    const { interpolates, imageSize, vision } = this.about;
    const { patchSize } = vision;
    const grid: [number, number] = [Math.floor(height / patchSize), Math.floor(width / patchSize)];
    const isRight = interpolates ? Math.min(...grid) > 0 : height === imageSize && width === imageSize;
    if (isRight) return grid;
    const expected = interpolates ? `at least ${patchSize} x ${patchSize}` : `${imageSize} x ${imageSize}`;
    throw invalid('images', `${expected} pixels after the preprocessing`, `${width} x ${height}`, 'SHAPE_MISMATCH');
  }

  /** The position embeddings for a grid of patches; null: the checkpoint's table fits. */
  #positionsFor(rows: number, columns: number): RawTensor | null {
    const { interpolates, imageSize, rotaryBase, vision } = this.about;
    const side = Math.floor(imageSize / vision.patchSize);
    if (!interpolates || rotaryBase !== undefined || (rows === side && columns === side)) return null;
    const key = `${rows} ${columns}`;
    if (this.#positions?.key !== key) {
      const first = vision.classRow ? 1 : 0;
      const index = this.#vision.parameters().findIndex(({ name }) => name === 'embeddings.position.weight');
      const table = this.#vision.readParameter(index);
      const data = interpolated(table, first, side, rows, columns, vision.embedDim, interpolates.antialias);
      this.#positions = { key, rows: { data, shape: [first + rows * columns, vision.embedDim] } };
    }
    return this.#positions.rows;
  }

  /**
   * The angles of rotary positions for an image's rows, whose last ones are the patch tokens; null without rotary
   * positions.
   */
  #anglesFor(rows: number, columns: number): RawTensor | null {
    const { rotaryBase, vision } = this.about;
    if (rotaryBase === undefined) return null;
    const pairs = vision.headDim / 2;
    const first = (vision.classRow ? 1 : 0) + (vision.registers ?? 0); // class and register tokens are not rotated
    const length = first + rows * columns;
    const data = new Float32Array(length * pairs);
    data.set(patchAngles(rows, columns, pairs, rotaryBase), first * pairs);
    return { data, shape: [length, pairs] };
  }

  /**
   * Applies the classifier to the last layer's rows [L,E] and returns [labels]; null if the model is not a classifier.
   */
  #logitsOf(rows: Float32Array): Float32Array | null {
    const { vision, head } = this.about;
    const { embedDim } = vision;
    if (!this.#classifier) return null;
    if (head.classifier!.rows === 'class')
      return this.#classifier.forward({ x: { data: rows.slice(0, embedDim), shape: [1, embedDim] } }).data;
    const data = new Float32Array(2 * embedDim);
    data.set(rows.subarray(0, embedDim));
    const first = (1 + (vision.registers ?? 0)) * embedDim;
    const count = (rows.length - first) / embedDim;
    for (let i = 0; i < embedDim; i++) {
      let sum = 0;
      for (let at = first + i; at < rows.length; at += embedDim) sum += rows[at]!;
      data[embedDim + i] = sum / count;
    }
    return this.#classifier.forward({ x: { data, shape: [1, 2 * embedDim] } }).data;
  }

  /**
   * Runs N images of one size. `siteOf` returns the sites for a number of rows per image. Returns the last layer's rows
   * [N,L,E] as the model outputs them and, per image, the pooled row [E], the vector, and the logits of a classifier.
   */
  async run(
    images: readonly Values[],
    options: PieceOptions,
    hooks: Omit<PieceHooks, 'use'> = {},
    siteOf?: (length: number) => RawSites | null,
  ) {
    const { vision } = this.about;
    const { embedDim, numLayers } = vision;
    const { height, width } = images[0]!;
    const [rows, columns] = this.#gridOf(images[0]!);
    const other = images.findIndex((image) => image.height !== height || image.width !== width);
    if (other > 0)
      throw invalid(
        `images[${other}]`,
        `${width} x ${height} pixels like the first image`,
        `${images[other]!.width} x ${images[other]!.height}`,
        'SHAPE_MISMATCH',
      );
    const pixels = {
      data: concatenate(
        Float32Array,
        images.map(({ values }) => values),
      ),
      shape: [images.length, 3, height, width],
    };
    let data: Float32Array = new Float32Array();
    const length = rows * columns + (vision.classRow ? 1 : 0) + (vision.registers ?? 0);
    const sites = siteOf?.(length) ?? null;
    const angles = this.#anglesFor(rows, columns);
    const begin = () => this.beginImages(pixels, this.#positionsFor(rows, columns), angles, sites);
    const batch = { lengths: Int32Array.from(images, () => length), keyMask: null, angles, sites };
    const use = (encoding: RawRows) => (data = encoding.hidden());
    const alive = () => {
      if (this.#isDeleted) throw new HeedError('DISPOSED', 'PretrainedModel: used after dispose()');
    };
    const run = (layers: DeviceLayers | null) =>
      runLayers(begin, alive, numLayers, { ...options, layers }, { ...hooks, use }, batch);
    await (this.device ? this.device.attempt('image', length, run) : run(options.layers ?? null));
    return calling('model', () => {
      const parts = images.map((_, n) => {
        const own = data.subarray(n * length * embedDim, (n + 1) * length * embedDim);
        let pooled: RawTensor = { data: own.slice(0, embedDim), shape: [1, embedDim] };
        if (this.#pooling) pooled = this.#pooling.forward({ data: own, shape: [length, embedDim] });
        if (this.#norm) pooled = this.#norm.forward({ x: pooled });
        const vector = (this.#projection?.forward({ x: pooled }) ?? pooled).data;
        if (this.#pooler) pooled = this.#pooler.forward({ x: pooled });
        return { pooled: pooled.data, vector, logits: this.#logitsOf(own) };
      });
      return {
        rows: data,
        pooled: parts.map(({ pooled }) => pooled),
        vectors: parts.map(({ vector }) => vector),
        logits: parts.flatMap(({ logits }) => (logits ? [logits] : [])),
      };
    });
  }
}

/**
 * Reads the preprocessing settings: from transformers 5's file for all inputs if it has them, else from the separate
 * file.
 */
export async function preprocessingIn(
  type: string,
  folder: ModelFolder,
  within: string,
  signal: SignalLike | undefined,
): Promise<Preprocessing | null> {
  const read = (name: string) => Settings.in(folder, within + name, signal);
  const [inputs, images] = await Promise.all([read(INPUT_SETTINGS), read(IMAGE_SETTINGS)]);
  const own = inputs?.record('image_processor');
  if (own) images?.entries(); // transformers does not read this file then
  const settings = own ?? images;
  return settings && new Preprocessing(settings, type);
}

/**
 * Cuts a text of CLIP after its first end token or, for old files, after the first occurrence of its largest id.
 * Attention is causal, so later tokens have no effect.
 */
function cutAtEnd(row: Row, end: number | null): Row {
  const { ids } = row;
  const last = Math.max(0, end === null ? ids.indexOf(maxOf(ids)) : ids.indexOf(end)) + 1;
  const cut = <T>(list: T[]) => list.slice(0, last);
  return {
    ...row,
    ids: cut(ids),
    types: row.types && cut(row.types),
    positions: row.positions && cut(row.positions),
    columns: cut(row.columns),
  };
}
