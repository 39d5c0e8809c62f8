/** Classification of tokens, as in named entity recognition, and of the spans that they form. */
import { indexOfMax, maxOf } from '../base/lists.js';
import { listOfTexts, oneOf, optional, strings } from '../base/options.js';
import { best, softmax } from '../base/scores.js';
import type { EditOptions } from '../base/site-options.js';
import type { PretrainedModel } from '../models/model.js';
import { labelOf, type TaskOptions, taskOptions } from './task.js';

/** An entity that the `token-classification` pipeline or `classifyTokens` finds. */
export interface Entity {
  /** Without aggregation, the model's label ('B-PER'); otherwise the group ('PER'). */
  label: string;
  /** The probability of the label. */
  score: number;
  /** The text of the range. */
  word: string;
  /** The range [start, end) in the text, in UTF-16 units. */
  start: number;
  /** The end of the range, exclusive. */
  end: number;
  /** The index of the token, or of a group's first token, special tokens included. */
  index: number;
}

const AGGREGATIONS = ['none', 'simple', 'first', 'average', 'max'] as const;
/** How `classifyTokens` joins the tokens of a word or of an entity; see docs/tasks.md. */
export type Aggregation = (typeof AGGREGATIONS)[number];

/** Implements `classifyTokens`, which imports this module when it is called; see api/on-demand.ts. */
export async function classifyTokens(
  model: PretrainedModel,
  input: string | readonly string[],
  options?: TaskOptions &
    EditOptions & { aggregation?: Aggregation | undefined; ignoreLabels?: readonly string[] | undefined },
): Promise<Entity[][]> {
  const schema = {
    aggregation: optional(oneOf(AGGREGATIONS), 'none' as const),
    ignoreLabels: optional(strings, ['O']),
  };
  const [{ aggregation, ignoreLabels }, call] = taskOptions('classifyTokens', model, schema, options);
  const list = listOfTexts(input);
  const prefixOf = prefixesOf(model.config.labels);
  const { logits, tokens, offsets, parts } = await model.predict('token-classification', list, call);
  const [, width, labels] = logits.shape as [number, number, number];
  return list.map((text, n) => {
    const tagged: Tagged[] = [];
    tokens[n]!.forEach((token, i) => {
      if (parts[n]![i] === null) return;
      const scores = softmax(logits.data.subarray((n * width + i) * labels, (n * width + i + 1) * labels));
      const [start, end] = offsets[n]![i]!;
      tagged.push({
        scores,
        start,
        end,
        index: i,
        continues: continuesWord(token, text, start, tagged.at(-1), model.config.subwordPrefix),
      });
    });
    const byWord = aggregation === 'none' || aggregation === 'simple' ? tagged : wordsOf(tagged, aggregation);
    const entities = byWord.map(({ scores, start, end, index }) => {
      const [top] = best(scores, 1);
      return { label: labelOf(model, top!.index), score: top!.score, word: text.slice(start, end), start, end, index };
    });
    return (aggregation === 'none' ? entities : groupsOf(entities, text, prefixOf)).filter(
      ({ label }) => !ignoreLabels.includes(label),
    );
  });
}

interface Tagged {
  scores: Float32Array;
  start: number;
  end: number;
  index: number;
  continues: boolean;
}

/**
 * Whether a token continues the word of the previous one. `prefix`: that of such tokens, in a tokenizer that has one.
 * Tokens of other tokenizers continue a word between two letters, digits or marks.
 */
function continuesWord(
  token: string,
  text: string,
  start: number,
  previous: Tagged | undefined,
  prefix: string | null,
): boolean {
  if (!previous) return false;
  if (prefix !== null) return token.startsWith(prefix); // also behind accents that the tokenizer removes
  if (start > previous.end) return false;
  // Bytes of one character. As in transformers, those at the beginning of a word are words of their own.
  if (start < previous.end) return start > 0 && text[start - 1] !== ' ';
  const around = [text.slice(Math.max(0, start - 2), start), text.slice(start, start + 2)] as const;
  return /[\p{L}\p{N}\p{M}]$/u.test(around[0]) && /^[\p{L}\p{N}\p{M}]/u.test(around[1]);
}

function wordsOf(tokens: Tagged[], how: 'first' | 'average' | 'max'): Tagged[] {
  const words: Tagged[][] = [];
  for (const token of tokens) {
    if (token.continues && words.length > 0) words.at(-1)!.push(token);
    else words.push([token]);
  }
  return words.map((word) => {
    const [first] = word as [Tagged];
    let { scores } = first;
    if (how === 'average')
      scores = first.scores.map((_, label) => word.reduce((sum, token) => sum + token.scores[label]!, 0) / word.length);
    if (how === 'max') scores = word[indexOfMax(word.map((token) => maxOf(token.scores)))]!.scores;
    return { ...first, scores, end: word.at(-1)!.end };
  });
}

/** Returns the prefix of a label: B- (begin), I- (inside), E- (end) or S- (single token); '' if it has none. */
type PrefixOf = (label: string) => string;

/** E- and S- are prefixes only of labels that also occur with B- or I-: `E-MAIL` is a label by itself. */
function prefixesOf(labels: readonly string[]): PrefixOf {
  const groups = new Set(labels.flatMap((label) => (/^[BI]-/.test(label) ? [label.slice(2)] : [])));
  return (label) =>
    /^[BI]-/.test(label) || (/^[ES]-/.test(label) && groups.has(label.slice(2))) ? label.slice(0, 2) : '';
}

/** Joins runs of one group: 'B-' and 'S-' start a run; 'S-', and 'E-' unless it is the run's first, end it. */
function groupsOf(entities: Entity[], text: string, prefixOf: PrefixOf): Entity[] {
  const groupOf = (label: string) => label.slice(prefixOf(label).length);
  const groups: Entity[][] = [];
  let open: string | null = null;
  for (const entity of entities) {
    const prefix = prefixOf(entity.label);
    const group = groupOf(entity.label);
    const continues: boolean = group === open && prefix !== 'B-' && prefix !== 'S-';
    if (continues) groups.at(-1)!.push(entity);
    else groups.push([entity]);
    open = prefix === 'S-' || (continues && prefix === 'E-') ? null : group;
  }
  return groups.map((group) => {
    const [first] = group as [Entity];
    const end = group.at(-1)!.end;
    const score = group.reduce((sum, { score }) => sum + score, 0) / group.length;
    return { ...first, label: groupOf(first.label), score, end, word: text.slice(first.start, end) };
  });
}
