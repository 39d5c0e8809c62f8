/** Functions whose code is downloaded when they are first called. */
import { importing } from '../base/error.js';

/** The function `key` of the module `name`, which `load` imports. */
const later = <M extends object, K extends keyof M>(name: string, load: () => Promise<M>, key: K): M[K] =>
  (async (...given: unknown[]) =>
    ((await importing(name, load))[key] as (...given: unknown[]) => unknown)(...given)) as M[K];

/**
 * Lists the models in the cache: that of the page's origin or, in Node, of the user.
 *
 * @example
 * for (const { source, bytes } of await listCache()) console.log(source, bytes);
 * @throws HeedError `INVALID_ARGUMENT` for invalid options
 */
export const listCache = later('cached-models', () => import('../io/cached-models.js'), 'listCache');

/**
 * Removes a model's files from the cache, or those of all models if `source` is omitted. Loaded models are not
 * affected. Resolves to the number of bytes removed.
 *
 * @example
 * await clearCache('org/name'); // or its folder's URL; without a source, all models
 * @throws HeedError `INVALID_ARGUMENT` for invalid options
 */
export const clearCache = later('cached-models', () => import('../io/cached-models.js'), 'clearCache');

/**
 * Loads the tokenizer of a model's folder, without its weights and without WebAssembly. Its tokens are those of models
 * that `fromPretrained` returns. Reads tokenizer.json, which is required, and the small files beside it
 * (tokenizer_config.json, config.json, modules.json and its settings).
 *
 * @example
 * const tokenizer = await loadTokenizer(source);
 * tokenizer.count('the quick brown fox');
 * @throws HeedError NOT_FOUND if there is no tokenizer.json; otherwise as `fromPretrained`
 */
export const loadTokenizer = later('own-tokenizer', () => import('../loading/own-tokenizer.js'), 'loadTokenizer');

/**
 * Splits a text into passages of at most `maxTokens` tokens. Passages consist of whole sentences (Unicode's, by
 * Intl.Segmenter); sentences that are too long are split between words, and words between characters. A text of only
 * white space has no passages.
 *
 * @example
 * const passages = await splitPassages(model, 'The quick fox. A brown fox.', { maxTokens: 8 });
 * const vectors = await model.embedDocument(passages.map(({ text }) => text));
 * @throws HeedError INVALID_ARGUMENT if `maxTokens` exceeds the model's limit or leaves no tokens besides the special
 * tokens and the prompt, or if `overlap` leaves none
 */
export const splitPassages = later('split-passages', () => import('../tasks/split-passages.js'), 'splitPassages');

/**
 * Returns one vector per text of any length: the mean of its passages' vectors, weighted by their numbers of tokens,
 * and scaled to unit norm if vectors are normalized. For a text that fits the model, it equals the vector of
 * `embedDocument`.
 *
 * @example
 * const vectors = await embedLong(model, ['The quick fox. A brown fox.', 'a dog'], { maxTokens: 8 });
 * vectors.passages.map((passages) => passages.length); // [2, 1]
 * @throws HeedError as `splitPassages` and `embed`
 */
export const embedLong = later('split-passages', () => import('../tasks/split-passages.js'), 'embedLong');

/**
 * Returns how well the model's vocabulary covers each text, to recognize queries in a language that the model does not
 * know: the shares of words that it does not know at all (another script) and of words that it knows only in pieces
 * (another language of the same script). See docs/embedding.md for the shares of some languages.
 *
 * @example
 * const [query] = await vocabularyCoverage(model, 'the quick brown fox');
 * query.words; // 4
 * query.unknown + query.continued > 0.4; // false: it may be English
 * @throws HeedError UNSUPPORTED for a model without tokenizer.json, and for one with a chat template
 */
export const vocabularyCoverage = later(
  'vocabulary-coverage',
  () => import('../tasks/vocabulary-coverage.js'),
  'vocabularyCoverage',
);

/**
 * Finds the entities of each text with the given labels, using a GLiNER model: ranges of whole words whose score (a
 * sigmoid) exceeds the threshold, in text order.
 *
 * @example
 * const [entities] = await extractEntities(gliner, 'Ada lives in London.', ['person', 'city']);
 * entities[0]; // { label, score, word, start, end }
 * @throws HeedError UNSUPPORTED if the model is not a GLiNER; TOO_LONG if the labels leave no tokens for words
 */
export const extractEntities = later('entities', () => import('../tasks/entities.js'), 'extractEntities');

/**
 * Sets the parameters of a layer or model to the weights of its counterpart in Keras: `layer.get_weights()`, in Keras'
 * order, as nested arrays or tensors, or as the bytes of the .npz file that `numpy.savez(file, *layer.get_weights())`
 * writes. Options such as eps, widths and activations are the layer's own: Keras' norms have eps 1e-3. Returns the layer.
 *
 * A kernel that fits both ways, because it is square, is taken as Keras has it. In `EncoderLayer` and `DecoderLayer`, the
 * attentions, dense layers and norms are told apart by their shapes and come in any order; of each kind, the first one is
 * that which is used first.
 *
 * @example
 * const dense = new heed.Linear({ inFeatures: 2, outFeatures: 1 });
 * await fromKeras(dense, [[[0.5], [-1]], [3]]); // kernel [2, 1] and bias [1]
 * dense.forward([4, 1]).toArray(); // [4]
 * @throws HeedError `SHAPE_MISMATCH` or `INVALID_ARGUMENT` for other numbers, ranks or shapes of arrays, and for numbers
 * that are not finite, naming the array; `INVALID_FILE` or `UNSUPPORTED` for bytes that are not a .npz file. The layer is
 * then unchanged
 */
export const fromKeras = later('keras', () => import('../layers/keras.js'), 'fromKeras');
