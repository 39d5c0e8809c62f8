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

/**
 * Labels the tokens of each text, or spans of tokens with `aggregation`. 'simple' joins neighboring tokens of one
 * group. 'first', 'average' and 'max' first give each word a single label: that of its first token, of its mean scores,
 * or of its token with the highest score.
 *
 * @example
 * const [entities] = await classifyTokens(tagger, 'Ada lives in London.', { aggregation: 'simple' });
 * entities[0]; // { label, score, word, start, end, index }
 */
export const classifyTokens = later(
  'token-classification',
  () => import('../tasks/token-classification.js'),
  'classifyTokens',
);

/**
 * Finds the `topK` (default 1) spans of `context` that answer `question`, best first. The score is the product of the
 * probabilities of the span's start and end. A context that is too long for the model is processed in overlapping
 * windows, with separate probabilities per window.
 *
 * @example
 * const [best] = await answerQuestion(answerer, 'Where is the cat?', 'The cat sleeps on the sofa.');
 * best; // { answer, score, start, end }
 */
export const answerQuestion = later(
  'question-answering',
  () => import('../tasks/question-answering.js'),
  'answerQuestion',
);

/**
 * Predicts the `topK` (default 5) most probable tokens for each text's mask, best first. A text with several masks
 * gives one list per mask, in text order; `sequence` then keeps the other masks and the special tokens.
 *
 * @typeParam T - the result per text: `Filling[]` (one mask) or `Filling[][]` (several)
 * @example
 * const [fillings] = await fillMask(maskedModel, 'The cat [MASK] on the sofa.', { topK: 3 });
 * fillings[0]; // { score, token, word, sequence }
 */
export const fillMask = later('fill-mask', () => import('../tasks/fill-mask.js'), 'fillMask');

/**
 * Classifies texts by given labels, with a model whose head distinguishes entailment and contradiction. Returns the
 * labels of each text, best first. The scores are the softmax over the labels' entailment logits; with `multiLabel` or
 * a single label, the softmax of entailment against contradiction for each label.
 *
 * @example
 * const [labels] = await zeroShotClassify(entailmentModel, 'I missed my train', ['travel', 'cooking']); // [{ label: 'travel', score: 0.98 }, ...]
 * @throws HeedError UNSUPPORTED if no label of the head begins with 'entail'
 */
export const zeroShotClassify = later('zero-shot', () => import('../tasks/zero-shot.js'), 'zeroShotClassify');

/**
 * Classifies texts. Returns the labels of each text, best first. The score is the logit for regression; the sigmoid of
 * the logit if config.json's problem type is multi-label or there is only one label; otherwise the softmax over the
 * labels. A classifier that `model.loadHead` returned is taken in place of a model.
 *
 * @example
 * const [labels] = await classify(classifier, 'What a day!', { topK: 2 });
 * labels[0]; // { label, score }
 */
export const classify = later('classification', () => import('../tasks/classification.js'), 'classify');

/**
 * Classifies images with a ViT or DINOv2 classifier. Returns the labels of each image, best first, with scores as for
 * `classify`.
 *
 * @example
 * const [labels] = await classifyImages(imageClassifier, imageData, { topK: 2 });
 * labels[0]; // { label, score }
 * @throws HeedError UNSUPPORTED for a model that does not classify images
 */
export const classifyImages = later('classification', () => import('../tasks/classification.js'), 'classifyImages');

/**
 * Ranks documents by a cross-encoder's score for (query, document), best first. The score is the logit.
 * `activation: 'sigmoid'` maps it to [0, 1], and `activation: 'default'` applies the activation that the folder names,
 * as sentence-transformers' `CrossEncoder.predict` does: see `config.scoreActivation`.
 *
 * A model without a classifier, such as the bundled one, compares token vectors (`embedTokens`) instead, as a ColBERT
 * does: the score is the mean, over the query's tokens, of the largest dot product with a token of the document, from -1 to 1
 * for vectors of unit norm. `prompt` and `promptName` are for cross-encoders.
 *
 * @example
 * const hits = await rerank(crossEncoder, 'What do cats eat?', ['Cats eat fish.', 'It rains.'], { topK: 1 });
 * hits[0]; // { index, score }
 */
export const rerank = later('classification', () => import('../tasks/classification.js'), 'rerank');
