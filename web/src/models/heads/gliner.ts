/**
 * Entity recognition with labels that the caller chooses (GLiNER: Zaratiana et al. 2024, arXiv:2311.08526). The
 * encoder's input is a marker and the label, for each label, a separator, and the words of the text, as in the Python
 * package gliner. Then each span of words is scored against each label. Imported on demand.
 */

import { invalid, invalidFile } from '../../base/error.js';
import { makeYield } from '../../base/event-loop.js';
import { append } from '../../base/lists.js';
import { listOfTexts, strings } from '../../base/options.js';
import { Tensor } from '../../base/tensor.js';
import type { RawEncoding, RawLayers, RawTensor } from '../../base/wasm/core.js';
import type { TextTokenizer, Token } from '../../text/tokenizer.js';
import { readCall } from '../call-options.js';
import { outputWidth } from '../families/family.js';
import type { GlinerConfig } from '../families/gliner-config.js';
import type { Row } from '../input.js';
import type { LoadedModel } from '../loaded-model.js';
import type { ScoreSpansOptions, SpanScores } from '../model.js';
import { type PieceOptions, runRows } from '../run.js';
import type { RunnableModel } from '../runnable-model.js';
import { SpanScorer } from './span-scorer.js';

/**
 * Makes the layers after the encoder.
 * @throws HeedError INVALID_FILE if a tensor is missing or has another shape; UNSUPPORTED if the folder has no tokenizer
 */
export function spanScorer(
  calls: RawLayers,
  gliner: GlinerConfig,
  { tokenizer, heads, config }: Pick<LoadedModel, 'tokenizer' | 'heads' | 'config'>,
): SpanScorer {
  if (!tokenizer)
    throw invalid('model', 'a GLiNER folder with tokenizer.json', 'a folder without it', 'UNSUPPORTED', {
      hint: 'In Python, GLiNER.from_pretrained(folder).save_pretrained(folder, safe_serialization=True) writes it',
    });
  for (const token of [gliner.marker, gliner.separator])
    if (tokenizer.idOf(token) === undefined)
      throw invalidFile('tokenizer.json', `the token '${token}', which gliner_config.json names`, 'none');
  return new SpanScorer(calls, heads, gliner, outputWidth(config));
}

/** The number of words to tokenize before yielding to the event loop. */
const WORDS_PER_STEP = 256;

/**
 * Splits words as the Python package does: runs of letters and digits, possibly joined by single hyphens and
 * underscores, and every other character by itself. Character classes are Python's \w and \S, not JavaScript's.
 */
const WORD = /[\p{L}\p{N}_]+(?:[-_][\p{L}\p{N}_]+)*|[^\p{White_Space}]/gu;

/** Implements `PretrainedModel.scoreSpans`. */
export async function scoreSpans(
  model: RunnableModel,
  texts: string | readonly string[],
  given: readonly string[],
  options?: ScoreSpansOptions,
): Promise<SpanScores[]> {
  const { spans } = model.raw;
  const read = readCall('scoreSpans', options);
  const yieldToEventLoop = makeYield(read.signal);
  const list = listOfTexts(texts);
  const labels = strings(given, 'labels');
  if (!spans)
    throw invalid(
      'scoreSpans',
      'a GLiNER, whose folder has gliner_config.json',
      `'${model.config.family}'`,
      'UNSUPPORTED',
    );
  if (labels.length === 0) throw invalid('labels', 'at least one label', 'none');
  const pieceOptions: PieceOptions = { yieldToEventLoop, headMask: null, sites: null };
  const tokenizer = model.context.tokenizer!;
  const tokensOf = (word: string) => tokenizer.tokenize(word, undefined, Infinity, false).tokens;
  const windowsOf = windowing(tokenizer, model.context.maxLength, spans.config, labels.map(tokensOf));
  const { maxWidth } = spans.config;
  const results: SpanScores[] = [];
  for (const each of list) {
    await yieldToEventLoop();
    const words: [number, number][] = [];
    const tokens: Token[][] = [];
    for (const { 0: word, index } of each.matchAll(WORD)) {
      const own = tokensOf(word);
      if (own.length === 0) continue; // for example, invisible characters, which the normalizer removes
      words.push([index, index + word.length]);
      tokens.push(own);
      if (words.length % WORDS_PER_STEP === 0) await yieldToEventLoop();
    }
    const logits = new Float32Array(words.length * maxWidth * labels.length).fill(-Infinity);
    let seen = 0; // the number of words in previous windows
    for (const { first, wordRows, labelRows, row } of windowsOf(tokens)) {
      let parts: [RawTensor, RawTensor] | undefined;
      const use = (encoding: RawEncoding) => {
        const hidden = encoding.hidden();
        const width = hidden.length / row.ids.length;
        parts = [rowsOf(hidden, width, wordRows), rowsOf(hidden, width, labelRows)];
      };
      await runRows(model.runContext, [row], 1, { signal: read.signal }, pieceOptions, () => ({ use }));
      const known = seen;
      const found = (start: number, scores: Float32Array) => {
        // Skip spans that the previous window contains.
        const from = Math.max(0, known - first - start) * labels.length;
        if (from < scores.length) logits.set(scores.subarray(from), (first + start) * maxWidth * labels.length + from);
      };
      await spans.score(...parts!, found, async () => {
        await yieldToEventLoop();
        void model.raw; // throws if the model has been disposed of
      });
      seen = first + wordRows.length;
    }
    results.push({ logits: new Tensor(logits, [words.length, maxWidth, labels.length]), words });
    read.onProgress?.({ done: results.length, total: list.length });
  }
  return results;
}

function rowsOf(hidden: Float32Array, width: number, rows: readonly number[]): RawTensor {
  const data = new Float32Array(rows.length * width);
  rows.forEach((row, i) => {
    data.set(hidden.subarray(row * width, (row + 1) * width), i * width);
  });
  return { shape: [rows.length, width], data };
}

/** The encoder's input for some words of a text. */
interface Window {
  /** The index of the first word. */
  first: number;
  /** The rows of the words, each that of the word's first token, and the rows of the labels. */
  wordRows: number[];
  labelRows: number[];
  row: Row;
}

/**
 * Splits words into windows that fit the model. Successive windows share K - 1 words, so that every span lies in a
 * window.
 */
function windowing(
  tokenizer: TextTokenizer,
  maxLength: number,
  { marker, separator, embedsMarker, maxWidth, maxWords }: GlinerConfig,
  labels: readonly Token[][],
): (words: readonly Token[][]) => Generator<Window> {
  const tokenOf = (text: string): Token => ({ id: tokenizer.idOf(text)!, text, start: 0, end: 0, part: 0 });
  const prompt: Token[] = [];
  const labelTokens: Token[] = [];
  for (const label of labels) {
    const tokens = [tokenOf(marker), ...label];
    labelTokens.push(tokens[embedsMarker ? 0 : Math.min(1, label.length)]!);
    append(prompt, tokens);
  }
  prompt.push(tokenOf(separator));
  const room = maxLength - tokenizer.specialCount(false) - prompt.length;
  if (room < 1) {
    const expected = `labels of fewer than ${maxLength} tokens, the limit for labels and words together`;
    throw invalid('labels', expected, `${prompt.length}`, 'TOO_LONG', { hint: 'Score fewer labels per call' });
  }
  return function* (words) {
    for (let first = 0, end = 0; end < words.length; first = Math.max(first + 1, end - maxWidth + 1)) {
      const tokens = [...prompt];
      const firsts: Token[] = [];
      for (end = first; end < words.length && end - first < maxWords; end++) {
        const own = words[end]!;
        if (end > first && tokens.length + own.length > prompt.length + room) break;
        append(tokens, own.slice(0, room));
        firsts.push(own[0]!);
      }
      const all = tokenizer.withSpecialTokens(tokens);
      const places = new Map(all.map((token, i) => [token, i]));
      const rowOf = (token: Token) => places.get(token)!;
      const ids = all.map(({ id }) => id);
      const row = {
        ...{ ids, types: null, positions: null, columns: ids.map((_, i) => i), length: ids.length },
        ...{ tokens: [], offsets: [], parts: [], cut: 0 },
      };
      yield { first, wordRows: firsts.map(rowOf), labelRows: labelTokens.map(rowOf), row };
    }
  };
}
