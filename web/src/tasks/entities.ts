/**
 * Selects entities by the scores of a GLiNER's spans, as `greedy_search` of the Python package gliner does. Imported on
 * demand.
 */
import { describe, invalid } from '../base/error.js';
import { flag, listOfTexts, optional, type Reader } from '../base/options.js';
import { sigmoid } from '../base/scores.js';
import type { PretrainedModel, SpanScores } from '../models/model.js';
import { type TaskOptions, taskOptions } from './task.js';
import type { Entity } from './token-classification.js';

/** An entity that `extractEntities` finds. */
export type LabeledEntity = Omit<Entity, 'index'>;

/** Options of `extractEntities`. */
export interface ExtractEntitiesOptions extends TaskOptions {
  /** The threshold, from 0 to 1, which an entity's score must exceed. Default 0.5. */
  threshold?: number | undefined;
  /**
   * Whether an entity may lie within another one. Default false: among overlapping entities, only the one with the
   * highest score is returned.
   */
  nested?: boolean | undefined;
  /** Whether a range may have several labels. Default false: only the label with the highest score. */
  multiLabel?: boolean | undefined;
}

const share: Reader<number> = (value, name) => {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value;
  throw invalid(name, 'a number from 0 to 1', describe(value));
};

const schema = {
  threshold: optional(share, 0.5),
  nested: optional(flag, false),
  multiLabel: optional(flag, false),
};

/** Implements `extractEntities`. */
export async function extractEntities(
  model: PretrainedModel,
  texts: string | readonly string[],
  given: string | readonly string[],
  options?: ExtractEntitiesOptions,
): Promise<LabeledEntity[][]> {
  const [own, call] = taskOptions('extractEntities', model, schema, options);
  const list = listOfTexts(texts);
  const labels = [...new Set(listOfTexts(given, 'labels'))];
  const scores = await model.scoreSpans(list, labels, call);
  return list.map((text, n) => {
    const { words } = scores[n]!;
    return selected(scores[n]!, labels.length, own).map(({ first, last, label, score }) => {
      const [start, end] = [words[first]![0], words[last]![1]];
      return { label: labels[label]!, score, word: text.slice(start, end), start, end };
    });
  });
}

/** A span of the words `first` to `last`, inclusive. */
interface Span {
  first: number;
  last: number;
  label: number;
  score: number;
}

function selected(
  { logits }: SpanScores,
  labels: number,
  { threshold, nested, multiLabel }: { threshold: number; nested: boolean; multiLabel: boolean },
): Span[] {
  const [count, maxWidth] = logits.shape as [number, number, number];
  const spans: Span[] = [];
  logits.data.forEach((logit, i) => {
    const score = sigmoid(logit);
    if (!(score > threshold)) return;
    const at = Math.floor(i / labels);
    const first = Math.floor(at / maxWidth);
    spans.push({ first, last: first + (at % maxWidth), label: i % labels, score });
  });
  spans.sort((a, b) => b.score - a.score);
  const excludes = (a: Span, b: Span) => {
    if (a.first === b.first && a.last === b.last) return !multiLabel;
    if (a.first > b.last || b.first > a.last) return false;
    return !(nested && ((a.first <= b.first && a.last >= b.last) || (b.first <= a.first && b.last >= a.last)));
  };
  /** The selected spans, indexed by their first word. */
  const found: Span[][] = Array.from({ length: count }, () => []);
  for (const span of spans) {
    const near = found.slice(Math.max(0, span.first - maxWidth + 1), span.last + 1);
    if (!near.some((others) => others.some((other) => excludes(span, other)))) found[span.first]!.push(span);
  }
  return found.flat();
}
