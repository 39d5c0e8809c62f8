/** Extractive question answering. */
import { invalid } from '../base/error.js';
import { optional, sizeOrInfinity, text } from '../base/options.js';
import { best, softmax } from '../base/scores.js';
import type { EditOptions } from '../base/site-options.js';
import type { PredictOptions, PretrainedModel } from '../models/model.js';
import { type TaskOptions, taskOptions } from './task.js';

/** An answer of `answerQuestion`: a range of the context. */
export interface Answer {
  /** The text of the range. */
  answer: string;
  /** The product of the probabilities of the start and of the end. */
  score: number;
  /** The range [start, end) in the context, in UTF-16 units. */
  start: number;
  /** The end of the range, exclusive. */
  end: number;
}

/** Implements `answerQuestion`, which imports this module when it is called; see api/on-demand.ts. */
export async function answerQuestion(
  model: PretrainedModel,
  question: string,
  context: string,
  options?: TaskOptions & EditOptions & { topK?: number | undefined; maxAnswerLength?: number | undefined },
): Promise<Answer[]> {
  const schema = { topK: optional(sizeOrInfinity, 1), maxAnswerLength: optional(sizeOrInfinity, 15) };
  const [{ topK, maxAnswerLength }, call] = taskOptions('answerQuestion', model, schema, options);
  const whole = text(context, 'answerQuestion: context');
  const { before, tokens, after, room } = await tokenizePair(model, question, whole, call);
  const overlap = Math.min(WINDOW_OVERLAP, room >> 1);
  const answers = new Map<string, Answer>();
  for (let from = 0, isLast = false; !isLast; from += room - overlap) {
    isLast = from + room >= tokens.length;
    const window = tokens.slice(from, from + room);
    const row = [...before, ...window, ...after];
    const input = { inputIds: [row.map(({ id }) => id)], tokenTypeIds: [row.map(({ type }) => type)] };
    const { logits } = await model.predict('question-answering', input, call);
    // As in Hugging Face's pipeline, the softmax includes the [CLS] row, which stands for "no answer".
    const none = row[0]?.part === null ? [0] : [];
    const indices = [...none, ...window.map((_, i) => before.length + i)];
    const probabilities = (column: number) =>
      softmax(Float32Array.from(indices, (i) => logits.data[2 * i + column]!)).subarray(none.length);
    for (const { first, last, score } of bestSpans(probabilities(0), probabilities(1), maxAnswerLength, topK)) {
      const { start } = window[first]!;
      const { end } = window[last]!;
      const key = `${start} ${end}`;
      if (!((answers.get(key)?.score ?? -1) >= score))
        answers.set(key, { answer: whole.slice(start, end), score, start, end });
    }
  }
  return bestOf([...answers.values()], topK);
}

/** The number of tokens that successive windows share, as in Hugging Face's pipeline. */
const WINDOW_OVERLAP = 128;

interface PairToken {
  id: number;
  type: number;
  part: 0 | 1 | null;
  start: number;
  end: number;
}

/**
 * Tokenizes the pair once for all windows: `tokens` of the whole context, `before` and `after` each window (question
 * and special tokens), and the capacity of a window, `room`. The whole context is tokenized because a window could
 * begin inside a word, which would change its tokens.
 */
async function tokenizePair(
  model: PretrainedModel,
  question: string,
  context: string,
  { signal, maxLength }: PredictOptions,
): Promise<{ before: PairToken[]; tokens: PairToken[]; after: PairToken[]; room: number }> {
  const { inputIds, tokenTypeIds, offsets, parts } = await model.tokenize([question], {
    textPairs: [context],
    maxLength: Infinity,
    ...(signal && { signal }),
  });
  const all = inputIds[0]!.map((id, i): PairToken => {
    const [start, end] = offsets[0]![i]!;
    return { id, type: tokenTypeIds[0]![i]!, part: parts[0]![i]!, start, end };
  });
  const tokens = all.filter(({ part }) => part === 1);
  const asked = all.filter(({ part }) => part === 0);
  const special = all.length - tokens.length - asked.length;
  const limit = maxLength ?? model.config.maxLength;
  const most = limit - special;
  if (most < 1) throw invalid('maxLength', `at least ${special + 1}, the special tokens and one more`, `${limit}`);
  // A question that leaves no tokens for the context is cut to half of the available tokens.
  const cut = new Set(asked.slice(asked.length < most ? asked.length : most >> 1));
  const kept = all.filter((token) => !cut.has(token));
  const first = tokens.length > 0 ? kept.indexOf(tokens[0]!) : kept.length;
  const room = limit - (kept.length - tokens.length);
  return { before: kept.slice(0, first), tokens, after: kept.slice(first + tokens.length), room };
}

/** The `count` items with the highest scores. */
function bestOf<T extends { score: number }>(items: T[], count: number): T[] {
  const scores = items.map(({ score }) => score);
  return best(scores, Math.min(count, items.length)).map(({ index }) => items[index]!);
}

function bestSpans(
  starts: Float32Array,
  ends: Float32Array,
  maxLength: number,
  count: number,
): { first: number; last: number; score: number }[] {
  const spans: { first: number; last: number; score: number }[] = [];
  for (let first = 0; first < starts.length; first++) {
    for (let last = first; last < Math.min(starts.length, first + maxLength); last++)
      spans.push({ first, last, score: starts[first]! * ends[last]! });
  }
  return bestOf(spans, count);
}
