/**
 * Long texts are tokenized in segments, so that memory does not depend on their length. A segment begins before a space between two words, and only for tokenizers that look at
 * the two sides of such a space independently: the tokens are those of the whole text.
 */
import type { Settings } from '../io/settings.js';

/** The least number of UTF-16 units of a segment whose tokens are used. */
export const SEGMENT = 1 << 15;

/** A letter or digit, a space, and a letter or digit. */
const BETWEEN_WORDS = /[\p{L}\p{N}] (?=[\p{L}\p{N}])/gu;

/** Where the segment that begins at `from` may end, after `least` units or more. */
export function segmentEnd(text: string, from: number, least: number): number {
  if (text.length - from <= least) return text.length;
  BETWEEN_WORDS.lastIndex = from + least;
  const found = BETWEEN_WORDS.exec(text);
  return found ? found.index + found[0].length - 1 : text.length;
}

/** Normalizers of which characters at a space between two words do not depend on what is beyond the space. */
const LOCAL = ['Sequence', 'BertNormalizer', 'Lowercase', 'NFC', 'NFD', 'NFKC', 'NFKD', 'StripAccents', 'Precompiled'];

/** Pre-tokenizers that leave spaces out. */
const WITHOUT_SPACES = ['BertPreTokenizer', 'Whitespace', 'WhitespaceSplit'];

interface Component {
  type?: string;
  use_regex?: boolean;
  prepend_scheme?: string;
  normalizers?: Component[];
  pretokenizers?: Component[];
}

interface Added {
  content: string;
  rstrip: boolean;
}

/** Whether texts may be tokenized in segments with the tokenizer of a tokenizer.json. */
export function allowsSegments(json: Settings): boolean {
  const [normalizer, pre, added] = ['normalizer', 'pre_tokenizer', 'added_tokens'].map((key) => json.get(key));
  const [first, ...others] = stepsOf(pre as Component);
  // ByteLevel's regular expression begins a word at each single space.
  const isLocal =
    WITHOUT_SPACES.includes(first?.type ?? '') || (first?.type === 'ByteLevel' && first.use_regex !== false);
  const crosses = ({ content, rstrip }: Added) =>
    /\p{White_Space}/u.test(content) || (rstrip && /[\p{L}\p{N}]$/u.test(content));
  return (
    isLocal &&
    stepsOf(normalizer as Component).every(({ type = '' }) => LOCAL.includes(type)) &&
    !others.some(({ prepend_scheme }) => prepend_scheme === 'first') && // only at the beginning of a text
    !((added ?? []) as Added[]).some(crosses)
  );
}

function stepsOf(component: Component | null | undefined): Component[] {
  if (!component) return [];
  const steps = component.normalizers ?? component.pretokenizers;
  return steps ? steps.flatMap(stepsOf) : [component];
}
