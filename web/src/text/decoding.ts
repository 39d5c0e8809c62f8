/** Decodes tokens to text, with `@huggingface/tokenizers`. */
import { SequenceDecoder, WordPieceDecoder } from '@huggingface/tokenizers';
import type { AddedToken } from './added-tokens.js';
import { configsIn } from './tokenizer-settings.js';

/** Removes spaces before punctuation and within contractions. */
const cleaned = (text: string): string =>
  new WordPieceDecoder({ type: 'WordPiece', prefix: '', cleanup: true }).decode_chain([text])[0]!;

/** Decodes tokens to a text. `keepsSpecial`: whether the tokens include special ones. */
export type Decode = (tokens: string[], keepsSpecial: boolean, cleansUp: boolean) => string;

export function decoderOf(config: unknown, suffix: unknown, added: AddedToken[]): Decode {
  const decoders = configsIn(config == null ? [] : [config]);
  const decoder = new SequenceDecoder({ type: 'Sequence', decoders } as never).decoders.at(0);
  if (decoder) decoder.added_tokens = added as never;
  return (tokens, keepsSpecial, cleansUp) => {
    let text = decoder ? decoder.decode(tokens) : tokens.join(' ');
    if (decoder && typeof suffix === 'string' && suffix !== '') {
      text = text.replaceAll(suffix, ' ');
      if (!keepsSpecial) text = text.trim();
    }
    return cleansUp ? cleaned(text) : text;
  };
}
