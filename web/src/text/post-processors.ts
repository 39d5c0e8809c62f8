/**
 * The post-processors of tokenizer.json, which add special tokens, with the same results as the Rust library
 * `tokenizers`.
 */
import { type Config, configsIn, unsupported } from './tokenizer-settings.js';
import { requireId } from './vocabulary.js';

/** A special token of a template. */
export interface Special {
  id: number;
  text: string;
}

/** The tokens of a text, or special tokens, with their types. */
export interface Encoding<T> {
  tokens: (T | Special)[];
  types: number[];
}

/** Maps the encodings of a text, or of a text and its pair, to those of the whole input. */
export type PostProcessor = <T>(encodings: Encoding<T>[], withSpecial: boolean) => Encoding<T>[];

/** @throws HeedError UNSUPPORTED for an unknown type */
export function postProcessorOf(config: Config): PostProcessor {
  switch (config.type) {
    case 'Sequence': {
      const steps = configsIn(config.processors).map(postProcessorOf);
      return (encodings, withSpecial) => steps.reduce((all, step) => step(all, withSpecial), encodings);
    }
    case 'TemplateProcessing':
      return template(config);
    case 'BertProcessing':
      return around(config, false, (encoding, i) => ({
        ...encoding,
        types: encoding.tokens.map(() => Math.min(i, 1)),
      }));
    case 'RobertaProcessing':
      return around(config, true, (encoding) => ({ ...encoding, types: encoding.tokens.map(() => 0) }));
    case 'ByteLevel':
      return (encodings) => encodings;
    default:
      throw unsupported('post_processor', 'a type of the Rust library `tokenizers`', config.type);
  }
}

/** Adds `cls` before the first text and `sep` after each text. `doubles`: adds `sep` before the second text, too. */
function around(
  config: Config,
  doubles: boolean,
  typed: <T>(encoding: Encoding<T>, index: number) => Encoding<T>,
): PostProcessor {
  const [cls, sep] = [config.cls, config.sep].map((pair) => {
    const [text, id] = pair as [string, number];
    return { text, id: requireId('post_processor', text, id) };
  });
  return (encodings, withSpecial) =>
    encodings.map((encoding, i) => {
      if (!withSpecial) return doubles ? typed(encoding, i) : encoding;
      const before = i === 0 ? [cls!] : doubles ? [sep!] : [];
      return typed({ tokens: [...before, ...encoding.tokens, sep!], types: [] }, i);
    });
}

interface Part {
  Sequence?: { id: 'A' | 'B'; type_id: number } | undefined;
  SpecialToken?: { id: string; type_id: number } | undefined;
}

function template(config: Config): PostProcessor {
  const special = (config.special_tokens ?? {}) as Record<string, { ids: number[]; tokens: string[] }>;
  for (const [name, { ids }] of Object.entries(special)) for (const id of ids) requireId('post_processor', name, id);
  return (encodings, withSpecial) => {
    const parts = (encodings.length > 1 ? config.pair : config.single) as Part[];
    return parts.flatMap(({ Sequence: sequence, SpecialToken: token }) => {
      if (sequence) {
        const { tokens } = encodings[sequence.id === 'A' ? 0 : 1]!;
        return [{ tokens, types: tokens.map(() => sequence.type_id) }];
      }
      if (!token || !withSpecial) return [];
      const { ids, tokens } = special[token.id]!;
      return [{ tokens: ids.map((id, i) => ({ id, text: tokens[i]! })), types: ids.map(() => token.type_id) }];
    });
  };
}

/** The values of `add_prefix_space` of the processors that trim spaces from tokens' ranges, in order. */
export function trimsOf(config: Config): boolean[] {
  if (config.type === 'Sequence') return configsIn(config.processors).flatMap(trimsOf);
  const trims = config.type === 'ByteLevel' || config.type === 'RobertaProcessing';
  return trims && config.trim_offsets !== false ? [config.add_prefix_space !== false] : [];
}

const SPACES = { leading: /^[\u0120\p{White_Space}]*/u, trailing: /[\u0120\p{White_Space}]*$/u };

/**
 * Trims the spaces of tokens from their ranges in `text`. `keepsFirst`: do not trim a single leading space that may
 * have been added before the text.
 */
export function trim(tokens: { text: string; start: number; end: number }[], text: string, keepsFirst: boolean): void {
  tokens.forEach((token, i) => {
    let leading = SPACES.leading.exec(token.text)![0].length;
    const trailing = SPACES.trailing.exec(token.text)![0].length;
    if (leading === 1 && keepsFirst && (i === 0 || token.start === 0)) leading = 0;
    // Trim as many characters of the text as the token has spaces, whichever characters they are.
    for (; leading > 0 && token.start < token.end; leading--) token.start += isPair(text, token.start) ? 2 : 1;
    for (let n = trailing; n > 0 && token.end > token.start; n--) token.end -= isPair(text, token.end - 2) ? 2 : 1;
  });
}

const isPair = (text: string, at: number) => (text.codePointAt(at) ?? 0) > 0xffff;
