/**
 * Tokenizes long texts in segments, so that memory does not depend on their length. Segments begin at a space between
 * two words, and only for tokenizers that treat the two sides of such a space independently, so that the tokens are
 * those of the whole text.
 */
import type { Settings } from '../io/settings.js';
import { type Config, configsIn, WITHOUT_SPACES } from './tokenizer-settings.js';

/** The minimum number of UTF-16 units of a segment whose tokens are used. */
export const SEGMENT = 1 << 15;

/** Matches a letter or digit and a space, before another letter or digit. */
const BETWEEN_WORDS = /[\p{L}\p{N}] (?=[\p{L}\p{N}])/gu;

/** The end of the segment that begins at `from`, after at least `least` units. */
export function segmentEnd(text: string, from: number, least: number): number {
  if (text.length - from <= least) return text.length;
  BETWEEN_WORDS.lastIndex = from + least;
  const found = BETWEEN_WORDS.exec(text);
  return found ? found.index + found[0].length - 1 : text.length;
}

/** Normalizers whose output at a space between two words does not depend on the text beyond the space. */
const LOCAL = ['Sequence', 'BertNormalizer', 'Lowercase', 'NFC', 'NFD', 'NFKC', 'NFKD', 'StripAccents', 'Precompiled'];

interface Component {
  type?: string | undefined;
  use_regex?: boolean | undefined;
  prepend_scheme?: string | undefined;
  normalizers?: Component[] | undefined;
  pretokenizers?: Component[] | undefined;
}

interface Added {
  content: string;
  rstrip: boolean;
}

/** Whether the tokenizer of a tokenizer.json allows tokenizing in segments. */
export function allowsSegments(json: Settings): boolean {
  const [normalizer, pre, added] = ['normalizer', 'pre_tokenizer', 'added_tokens'].map((key) => json.get(key));
  const [first, ...others] = stepsOf(pre as Component);
  // ByteLevel's regular expression begins a new word at each single space.
  const isLocal = WITHOUT_SPACES.includes(first?.type) || (first?.type === 'ByteLevel' && first.use_regex !== false);
  const crosses = ({ content, rstrip }: Added) =>
    /\p{White_Space}/u.test(content) || (rstrip && /[\p{L}\p{N}]$/u.test(content));
  return (
    isLocal &&
    stepsOf(normalizer as Component).every(({ type = '' }) => LOCAL.includes(type)) &&
    !others.some(({ prepend_scheme }) => prepend_scheme === 'first') && // prepends only at the text's beginning
    !((added ?? []) as Added[]).some(crosses)
  );
}

function stepsOf(component: Component | null | undefined): Component[] {
  if (!component) return [];
  const steps = component.normalizers ?? component.pretokenizers;
  return steps ? steps.flatMap(stepsOf) : [component];
}

/** Whether the parts of a text between white space can be split separately. */
export function splitsOnSpace({ type, pretokenizers }: Config): boolean {
  const [first] = configsIn(pretokenizers);
  return first ? splitsOnSpace(first) : WITHOUT_SPACES.includes(type);
}
