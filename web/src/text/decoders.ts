/** The decoders of tokenizer.json, with the results of the Rust library `tokenizers`. */
import { ALPHABET, utf8 } from './byte-level.js';
import type { Decoder } from './component-makers.js';
import { cleanedIf, each, optionOf, wordPieceDecoder } from './decoding.js';
import { matchesOf, patternOf } from './patterns/regex.js';
import { type Config, configsIn, unsupported } from './tokenizer-settings.js';

/** @throws HeedError UNSUPPORTED for an unknown type */
export function decoderOf(config: Config): Decoder {
  const option = (name: string) => optionOf(config, name);
  switch (config.type) {
    case 'Sequence': {
      const steps = configsIn(config.decoders).map(decoderOf);
      return (tokens) => steps.reduce((parts, step) => step(parts), tokens);
    }
    case 'WordPiece':
      return wordPieceDecoder(config);
    case 'ByteLevel':
      return (tokens) => [decoded(tokens.flatMap(bytesOf))];
    case 'Metaspace': {
      const mark = option('replacement');
      const prepends = (config.prepend_scheme ?? 'always') !== 'never' && config.add_prefix_space !== false;
      return each((token, i) => token.replaceAll(mark, i === 0 && prepends ? '' : ' '));
    }
    case 'BPEDecoder': {
      const end = option('suffix');
      return each((token, i, { length }) => token.replaceAll(end, i === length - 1 ? '' : ' '));
    }
    case 'CTC':
      return ctc(option('pad_token'), option('word_delimiter_token'), config.cleanup);
    case 'ByteFallback':
      return byteFallback;
    case 'Fuse':
      return (tokens) => [tokens.join('')];
    case 'Strip': {
      const content = option('content');
      return each((token) => stripped(token, content, Number(config.start), Number(config.stop)));
    }
    case 'Replace': {
      const pattern = patternOf(config.pattern);
      const content = option('content');
      const replaced = (token: string) =>
        matchesOf(pattern, token).map(([from, to, isMatch]) => (isMatch ? content : token.slice(from, to)));
      return each((token) => (token === '' ? '' : replaced(token).join('')));
    }
    default:
      throw unsupported('decoder', 'a type of the Rust library `tokenizers`', config.type);
  }
}

/** Bytes that are not UTF-8 give U+FFFD. */
const decoded = (bytes: number[]): string =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));

const BYTES = new Map(ALPHABET.map((character, byte) => [character, byte]));

/** The bytes that a token of a byte-level vocabulary stands for; of other tokens, those of their text. */
function bytesOf(token: string): number[] {
  const bytes = [...token].map((character) => BYTES.get(character));
  return bytes.every((byte) => byte !== undefined) ? bytes : [...utf8(token)];
}

/** Replaces runs of tokens for bytes by their text, or each of the tokens by U+FFFD if the run is not UTF-8. */
function byteFallback(tokens: string[]): string[] {
  const parts: string[] = [];
  let bytes: number[] = [];
  const flush = () => {
    if (bytes.length === 0) return;
    const text = decoded(bytes);
    if (utf8(text).join() === bytes.join()) parts.push(text);
    else for (const _ of bytes) parts.push('\uFFFD');
    bytes = [];
  };
  for (const token of tokens) {
    const [, byte] = /^<0x([\da-f]{2})>$/i.exec(token) ?? [];
    if (byte !== undefined) bytes.push(Number.parseInt(byte, 16));
    else {
      flush();
      parts.push(token);
    }
  }
  flush();
  return parts;
}

/** Tokens of connectionist temporal classification: runs of equal tokens become one. */
function ctc(pad: string, delimiter: string, cleans: unknown): Decoder {
  return (tokens) =>
    tokens.flatMap((token, i) => {
      if (i > 0 && token === tokens[i - 1]) return [];
      const text = cleanedIf(cleans, token.replaceAll(pad, ''));
      return text === '' ? [] : [cleans ? text.replaceAll(delimiter, ' ') : text];
    });
}

/** Removes a character at most `start` times at the beginning, and `stop` times at the end. */
function stripped(token: string, content: string, start: number, stop: number): string {
  let [from, to] = [0, token.length];
  for (let n = 0; n < start && token.startsWith(content, from); n++) from += content.length;
  for (let n = 0; n < stop && to > from && token.endsWith(content, to); n++) to -= content.length;
  return token.slice(from, to);
}
