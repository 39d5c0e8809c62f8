/** Says where a text is not read as it was written. */
import type { Reading } from '../engine/reading';
import { Notice } from './controls';
import { plural, short } from './numbers';

interface ReadingNotesProps {
  texts: readonly string[];
  of: readonly Reading[];
}

const named = (texts: readonly string[], at: number): string =>
  texts.length > 1 ? `Sentence ${at + 1}` : 'This sentence';
const shownParts = 6;
const list = (parts: readonly string[]) =>
  parts
    .slice(0, shownParts)
    .map((part) => `“${short(part, 24)}”`)
    .join(', ') + (parts.length > shownParts ? ' …' : '');

export function ReadingNotes({ texts, of }: ReadingNotesProps) {
  const lost = of.flatMap(({ isAllUnknown }, at) => (isAllUnknown ? [at + 1] : []));
  const divided = of.flatMap((reading) => reading.divided);
  return (
    <div class="reading-notes" aria-live="polite">
      {of.map(
        ({ unknown, notRead }, at) =>
          (unknown.length > 0 || notRead > 0) && (
            <Notice key={at}>
              {unknown.length > 0 && (
                <p>
                  {named(texts, at)} has characters that the model’s vocabulary lacks: it reads {list(unknown)} as the
                  unknown token [UNK], whatever they mean.
                </p>
              )}
              {notRead > 0 && (
                <p>
                  The last {plural(notRead, 'token')} of {named(texts, at).toLowerCase()}{' '}
                  {notRead === 1 ? 'was' : 'were'} not read: the text is longer than the model’s limit.
                </p>
              )}
            </Notice>
          ),
      )}
      {lost.length > 1 && (
        <Notice>
          Of the sentences {lost.join(' and ')} nothing is left but [UNK], so their vectors are nearly equal: their
          similarity says nothing.
        </Notice>
      )}
      {divided.length > 0 && (
        <p class="facts">
          Words that the vocabulary lacks are read in pieces; “##” marks a piece that continues a word:{' '}
          {divided
            .slice(0, 3)
            .map(({ word, pieces }) => `${word} = ${pieces.join(' ')}`)
            .join('; ')}
          {divided.length > 3 && ' …'}
        </p>
      )}
    </div>
  );
}
