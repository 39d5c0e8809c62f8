/**
 * The post-processors of tokenizer.json, which add special tokens, with the same results as the Rust library
 * `tokenizers`.
 */
import type { Encoding, PostProcessor, Trim } from './component-makers.js';
import { template } from './template.js';
import { type Config, configsIn, unsupported } from './tokenizer-settings.js';
import { requireId } from './vocabulary.js';

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

/** The functions that trim spaces from tokens' ranges, one per processor that does so. */
export function trimsOf(config: Config): Trim[] {
  if (config.type === 'Sequence') return configsIn(config.processors).flatMap(trimsOf);
  const trims = config.type === 'ByteLevel' || config.type === 'RobertaProcessing';
  if (!trims || config.trim_offsets === false) return [];
  const keepsFirst = config.add_prefix_space !== false;
  return [(tokens, text, isFirst) => trim(tokens, text, keepsFirst && isFirst)];
}

const SPACES = { leading: /^[\u0120\p{White_Space}]*/u, trailing: /[\u0120\p{White_Space}]*$/u };

/**
 * Trims the spaces of tokens from their ranges in `text`. `keepsFirst`: do not trim a single leading space that may
 * have been added before the text.
 */
function trim(tokens: Parameters<Trim>[0], text: string, keepsFirst: boolean): void {
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
