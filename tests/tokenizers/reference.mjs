/** What Hugging Face's tokenizers in Rust make of texts. */
import { createRequire } from 'node:module';

const { Tokenizer } = createRequire(import.meta.url)('tokenizers');

/** The library counts code points; JavaScript counts UTF-16 units. */
function utf16Places(text) {
  const places = [0];
  for (const point of text) places.push(places.at(-1) + point.length);
  return places;
}

/** `json`: a tokenizer.json. For each text, or text and its pair: ids, tokens, ranges in UTF-16 units, and types; null if the library fails on it. */
export async function encodings(json, inputs) {
  const tokenizer = Tokenizer.fromString(JSON.stringify(json));
  return Promise.all(
    inputs.map(async ([text, pair]) => {
      try {
        const encoding = await tokenizer.encode(text, pair ?? null);
        const places = [text, pair ?? ''].map(utf16Places);
        const sequences = encoding.getSequenceIds();
        return {
          ids: encoding.getIds(),
          tokens: encoding.getTokens(),
          ranges: encoding.getOffsets().map((range, i) => range.map((place) => places[sequences[i] ?? 0][place])),
          types: encoding.getTypeIds(),
        };
      } catch {
        return null;
      }
    }),
  );
}

/** `json`: a tokenizer.json. The texts of ids, special tokens included. */
export async function decodings(json, ids) {
  const tokenizer = Tokenizer.fromString(JSON.stringify(json));
  return Promise.all(ids.map((each) => tokenizer.decode(each, false)));
}
