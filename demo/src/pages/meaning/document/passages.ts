/** Splits a text into passages of a few sentences, which is what a sentence encoder can embed. */

/** The sentences of one passage, in order. */
export type Passage = readonly string[];

/** Characters; some 90 tokens of English, so that a passage is a few sentences. */
const passageLength = 360;
/** Longer sentences, and text without any punctuation, are divided between words. */
const sentenceLength = 240;
/** Longer paragraphs are divided before they are searched for sentences, which takes time. */
const paragraphLength = 8000;

/**
 * The passages of a text, one by one, so that a caller can pause between them. Sentences are grouped up to `passageLength`; a new paragraph starts a
 * new passage unless the one before is shorter than half of that, as headings are.
 */
export function* passagesOf(text: string): Generator<Passage> {
  let passage: string[] = [];
  let length = 0;
  for (const paragraph of paragraphsOf(text)) {
    let isFirst = true;
    for (const sentence of sentencesOf(paragraph)) {
      const isFull = length + sentence.length > passageLength || (isFirst && length >= passageLength / 2);
      if (isFull && passage.length > 0) {
        yield passage;
        passage = [];
        length = 0;
      }
      passage.push(sentence);
      length += sentence.length + 1;
      isFirst = false;
    }
  }
  if (passage.length > 0) yield passage;
}

function* paragraphsOf(text: string): Generator<string> {
  for (const paragraph of text.split(/(?:\r?\n[^\S\n]*){2,}/)) {
    const line = paragraph.replace(/\s+/g, ' ').trim();
    if (line) yield* divided(line, paragraphLength);
  }
}

function* sentencesOf(paragraph: string): Generator<string> {
  for (const segment of segments(paragraph)) {
    const sentence = segment.trim();
    if (sentence) yield* divided(sentence, sentenceLength);
  }
}

/** Firefox has had Intl.Segmenter since version 125. */
const segmenter = 'Segmenter' in Intl ? new Intl.Segmenter(undefined, { granularity: 'sentence' }) : undefined;

function segments(paragraph: string): Iterable<string> {
  if (!segmenter) return paragraph.split(/(?<=[.!?。！？]["'”’)]?)\s+/u);
  return Array.from(segmenter.segment(paragraph), ({ segment }) => segment);
}

/** Parts of at most `length` characters, divided at the last space, or anywhere if there is none. */
function* divided(text: string, length: number): Generator<string> {
  let rest = text;
  while (rest.length > length) {
    const space = rest.lastIndexOf(' ', length);
    let end = space > length / 2 ? space : length;
    if (/[\uD800-\uDBFF]/.test(rest[end - 1]!)) end--; // not within a surrogate pair
    yield rest.slice(0, end);
    rest = rest.slice(end).trimStart();
  }
  if (rest) yield rest;
}
