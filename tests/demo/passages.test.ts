/** How the demo splits a document. */
import { describe, expect, it } from 'vitest';
import { passagesOf } from '../../demo/src/pages/meaning/document/passages';

const split = (text: string) => [...passagesOf(text)];
/** Without spaces, which splitting may change. */
const letters = (text: string) => text.replace(/\s/g, '');
const prose = (sentences: number) =>
  Array.from({ length: sentences }, (_, i) => `This is sentence ${i}, which says little but is there.`).join(' ');

describe('passagesOf', () => {
  it('groups sentences', () => {
    const passages = split(prose(100));
    expect(passages.length).toBeGreaterThan(5);
    for (const passage of passages) {
      expect(passage.join(' ').length).toBeLessThanOrEqual(370);
      for (const sentence of passage) expect(sentence).toMatch(/^This is sentence \d+, .* there\.$/);
    }
    expect(passages.flat()).toHaveLength(100);
  });

  it('starts a passage with a paragraph, and keeps a heading with what follows', () => {
    const [first, second] = split(`A heading\n\n${prose(4)}\r\n \r\n${prose(3)}`);
    expect(first).toHaveLength(5);
    expect(first![0]).toBe('A heading');
    expect(second).toHaveLength(3);
  });

  it('joins the lines of a paragraph', () => {
    expect(split('One sentence\nover two lines.\nAnother one.')).toEqual([
      ['One sentence over two lines.', 'Another one.'],
    ]);
  });

  it.each([
    ['nothing', ''],
    ['white space', ' \n\n\t '],
    ['one line without punctuation', 'word '.repeat(30_000)],
    ['one word', 'x'.repeat(30_000)],
    ['characters outside the basic plane', '😀'.repeat(5000)],
    ['a script without spaces', '这是一个句子。'.repeat(3000)],
  ])('loses nothing of %s', (_, text) => {
    const passages = split(text);
    expect(letters(passages.flat().join(''))).toBe(letters(text));
    for (const sentence of passages.flat()) {
      expect(sentence.length).toBeLessThanOrEqual(240);
      expect(() => encodeURIComponent(sentence)).not.toThrow(); // no half of a surrogate pair
    }
  });
});
