/** The pre-tokenizers of tokenizer.json, with the same results as the Rust library `tokenizers`. */
import { WORD } from '../base/regex.js';
import { type Aligned, mapped, memoized, parts, prepended, slice } from './alignment.js';
import { ASCII_PUNCTUATION, bertWords } from './bert-components.js';
import { byteCharacters } from './byte-level.js';
import type { PreTokenizer } from './component-makers.js';
import { patternOf } from './patterns/regex.js';
import { scriptBoundaries } from './scripts.js';
import { behaviorOf, split } from './split.js';
import { type Config, configsIn, unsupported } from './tokenizer-settings.js';

const PUNCTUATION = new RegExp(`[\\p{P}${ASCII_PUNCTUATION}]`, 'gu');
const WORDS = new RegExp(`[${WORD}]+|[^${WORD}\\p{White_Space}]+`, 'gu');
const BYTE_LEVEL_WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** @throws HeedError UNSUPPORTED for an unknown type or option value */
export function preTokenizerOf(config: Config): PreTokenizer {
  switch (config.type) {
    case 'Sequence': {
      const steps = configsIn(config.pretokenizers).map(preTokenizerOf);
      const isPiece = ({ text }: Aligned) => text !== '';
      return (source) => steps.reduce((pieces, step) => pieces.flatMap(step).filter(isPiece), [source]);
    }
    case 'BertPreTokenizer':
      return bertWords;
    case 'Whitespace':
      return (source) => parts(source, WORDS);
    case 'WhitespaceSplit':
      return (source) => parts(source, /\P{White_Space}+/gu);
    case 'Punctuation': {
      const behavior = behaviorOf(config.behavior ?? 'Isolated');
      return (source) => split(source, PUNCTUATION, behavior);
    }
    case 'Digits': {
      const behavior = behaviorOf(config.individual_digits ? 'Isolated' : 'Contiguous');
      return (source) => split(source, /\p{N}/gu, behavior);
    }
    case 'Split': {
      const pattern = patternOf(config.pattern);
      const behavior = behaviorOf(config.behavior);
      return (source) => split(source, pattern, behavior, config.invert === true);
    }
    case 'CharDelimiterSplit': {
      const pattern = patternOf({ String: config.delimiter });
      const behavior = behaviorOf('Removed');
      return (source) => split(source, pattern, behavior);
    }
    case 'UnicodeScripts':
      return (source) => pieces(source, scriptBoundaries(source.text));
    case 'FixedLength':
      return fixedLength(config.length ?? 5);
    case 'Metaspace':
      return metaspace(config);
    case 'ByteLevel':
      return byteLevel(config);
    default:
      throw unsupported('pre_tokenizer', 'a type of the Rust library `tokenizers`', config.type);
  }
}

/** The pieces of a text between boundaries. */
function pieces(source: Aligned, boundaries: number[]): Aligned[] {
  return boundaries.slice(1).map((to, i) => slice(source, boundaries[i]!, to));
}

function fixedLength(length: unknown): PreTokenizer {
  if (!Number.isSafeInteger(length) || (length as number) < 1)
    throw unsupported('pre_tokenizer.length', 'a positive whole number', length);
  return (source) => {
    const boundaries = [0];
    let at = 0;
    let points = 0;
    for (const point of source.text) {
      at += point.length;
      if (++points % (length as number) === 0 || at === source.text.length) boundaries.push(at);
    }
    return pieces(source, boundaries);
  };
}

function metaspace(config: Config): PreTokenizer {
  const { replacement: mark = '\u2581', prepend_scheme: scheme = 'always', add_prefix_space: adds } = config;
  if (typeof mark !== 'string' || [...mark].length !== 1)
    throw unsupported('pre_tokenizer.replacement', 'one character', mark);
  if (scheme !== 'always' && scheme !== 'first' && scheme !== 'never')
    throw unsupported('pre_tokenizer.prepend_scheme', "'always', 'first' or 'never'", scheme);
  const prepends = adds === false ? 'never' : scheme;
  const pattern = patternOf({ String: mark });
  const behavior = behaviorOf('MergedWithNext');
  return (source) => {
    const marked = source.text.includes(' ') ? mapped(source, (point) => (point === ' ' ? mark : point)) : source;
    const isFirst = prepends === 'always' || (prepends === 'first' && source.starts[0] === 0);
    const text = isFirst && !marked.text.startsWith(mark) ? prepended(mark, marked) : marked;
    const isOne = config.split === false || text.text.lastIndexOf(mark) <= 0;
    return isOne ? [text] : split(text, pattern, behavior);
  };
}

function byteLevel({ add_prefix_space: adds, use_regex: splits }: Config): PreTokenizer {
  const characters = memoized(20_000, byteCharacters);
  return (source) => {
    const text = adds && !source.text.startsWith(' ') ? prepended(' ', source) : source;
    const found = splits === false ? [text] : parts(text, BYTE_LEVEL_WORDS);
    return found.map((piece) => mapped(piece, characters));
  };
}
