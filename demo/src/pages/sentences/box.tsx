/** The box for the reader's sentences. */
import { Notice } from '../../components/controls';
import { plural } from '../../components/numbers';
import { ReadingNotes } from '../../components/reading-notes';
import { linesLeftOut, maxSentences, reading, texts, written } from './state';

export function SentencesBox() {
  const current = reading.value;
  return (
    <div class="sentences">
      <header>
        <h2>
          <label for="sentences">Your sentences</label>
        </h2>
        <p class="timing">one per line; the results are updated as you type</p>
      </header>
      <textarea
        id="sentences"
        rows={Math.min(12, Math.max(4, written.value.split('\n').length))}
        value={written.value}
        onInput={(event) => (written.value = event.currentTarget.value)}
        spellcheck={false}
      />
      {texts.value.length === 0 && <Notice>Write a sentence to see the model’s results.</Notice>}
      {linesLeftOut.value > 0 && (
        <Notice>
          {plural(linesLeftOut.value, 'further line')} {linesLeftOut.value === 1 ? 'was' : 'were'} left out: this page
          compares up to {maxSentences} sentences.
        </Notice>
      )}
      {current && texts.value.length > 0 && <ReadingNotes {...current} />}
    </div>
  );
}
