/** Decodes tokens to a text, and what the decoders of tokenizer.json have in common. */
import type { Decoder } from './component-makers.js';
import { type Config, unsupported } from './tokenizer-settings.js';

/** Decodes tokens to a text. `keepsSpecial`: whether the tokens include special ones. */
export type Decode = (tokens: string[], keepsSpecial: boolean, cleansUp: boolean) => string;

/** `suffix`: the mark of the vocabulary's tokens that end a word. As in transformers, a space replaces it. */
export function decodingWith(decode: Decoder | null, suffix: unknown): Decode {
  return (tokens, keepsSpecial, cleansUp) => {
    let text = decode ? decode(tokens).join('') : tokens.join(' ');
    if (decode && typeof suffix === 'string' && suffix !== '') {
      text = text.replaceAll(suffix, ' ');
      if (!keepsSpecial) text = text.trim();
    }
    return cleansUp ? cleaned(text) : text;
  };
}

/** A text among the options of a decoder. */
export function optionOf(config: Config, name: string): string {
  const value = config[name];
  if (typeof value !== 'string') throw unsupported(`decoder.${name}`, 'a text', value);
  return value;
}

export const each =
  (change: (token: string, i: number, tokens: string[]) => string): Decoder =>
  (tokens) =>
    tokens.map(change);

const SPACED = [' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", " 's", " 've", " 're"];

/** Removes spaces before punctuation and within contractions. */
const cleaned = (text: string): string => SPACED.reduce((all, form) => all.replaceAll(form, form.trim()), text);

/** What decoders clean up, besides. */
export const cleanedIf = (cleans: unknown, text: string): string =>
  cleans ? cleaned(text).replaceAll(' do not', " don't") : text;

export function wordPieceDecoder(config: Config): Decoder {
  const prefix = optionOf(config, 'prefix');
  const spaced = (token: string) => (token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`);
  return each((token, i) => cleanedIf(config.cleanup, i > 0 ? spaced(token) : token));
}
