/** Extractive question answering. */
import { optional, text } from '../../options.js';
import type { PretrainedModel } from '../model.js';
import { best } from './similarity.js';
import { softmax, type TaskOptions, taskOptions, topCount } from './task.js';

export interface Answer {
  answer: string;
  score: number;
  /** The range in UTF-16 units of the context, [start, end). */
  start: number;
  end: number;
}

/**
 * The spans of `context` that answer `question`, best first. The score is the product of the probabilities of the span's start and end. A context that is too long for the model
 * is processed in overlapping windows, with probabilities per window.
 *
 * @example
 * const [best] = await answerQuestion(answerer, 'Where is the cat?', 'The cat sleeps on the sofa.');
 * best; // { answer, score, start, end }
 */
export async function answerQuestion(
  model: PretrainedModel,
  question: string,
  context: string,
  options?: TaskOptions & { topK?: number; maxAnswerLength?: number },
): Promise<Answer[]> {
  const schema = { topK: optional(topCount, 1), maxAnswerLength: optional(topCount, 15) };
  const [{ topK, maxAnswerLength }, call] = taskOptions('answerQuestion', model, schema, options);
  const whole = text(context, 'answerQuestion: context');
  const answers = new Map<string, Answer>();
  for (let from = 0; ; ) {
    const { logits, offsets, parts, truncated } = await model.predict('question-answering', [question], {
      ...call,
      textPairs: [whole.slice(from)],
    });
    /** The indices of the context's tokens. */
    const indices = parts[0]!.flatMap((part, i) => (part === 1 ? [i] : []));
    // As in Hugging Face's pipeline, the first row, of [CLS], takes part: it stands for no answer.
    const none = parts[0]![0] === null ? [0] : [];
    const probabilities = (column: number) =>
      softmax(Float32Array.from([...none, ...indices], (i) => logits.data[2 * i + column]!)).subarray(none.length);
    for (const { first, last, score } of bestSpans(probabilities(0), probabilities(1), maxAnswerLength, topK)) {
      const start = from + offsets[0]![indices[first]!]![0];
      const end = from + offsets[0]![indices[last]!]![1];
      const key = `${start} ${end}`;
      if (!((answers.get(key)?.score ?? -1) >= score))
        answers.set(key, { answer: whole.slice(start, end), score, start, end });
    }
    const overlap = Math.min(WINDOW_OVERLAP, indices.length >> 1);
    const next = indices[indices.length - overlap];
    if (truncated[0] === 0 || indices.length < 2 || next === undefined) break;
    from += Math.max(1, offsets[0]![next]![0]);
  }
  return bestOf([...answers.values()], topK);
}

/** The `count` items with the highest scores. */
function bestOf<T extends { score: number }>(items: T[], count: number): T[] {
  const scores = items.map(({ score }) => score);
  return best(scores, Math.min(count, items.length)).map(({ index }) => items[index]!);
}

/** The number of tokens that a window shares with the preceding one, as in Hugging Face's pipeline. */
const WINDOW_OVERLAP = 128;

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
