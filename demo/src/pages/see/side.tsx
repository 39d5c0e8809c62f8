/** The word in one of the sentences: its vector before, the weights of its row, and its vector after. */
import { type Signal, signal } from '@preact/signals';
import { percent } from '../../components/numbers';
import { isWord } from '../../engine/senses';
import { isOutdated, isPartial, kind, view, width, word } from './state';

interface SideProps {
  at: 0 | 1;
  sentence: Signal<string>;
  meaning: string | undefined;
}

/** A token that was chosen although the other sentence lacks it. */
const onlyHere = signal<{ at: number; token: string } | null>(null);

export function Side({ at, sentence, meaning }: SideProps) {
  const { pair, word: shown } = view.value;
  const { tokens, rows, input, output, at: place } = pair[at];
  const row = rows[kind.value];
  const other = pair[1 - at]!.tokens;
  const largest = Math.max(...input.map(Math.abs), ...output.map(Math.abs));
  const choose = (token: string) => {
    const isShared = other.includes(token);
    onlyHere.value = isShared ? null : { at, token };
    if (isShared) word.value = token;
  };
  return (
    <div class="side">
      <label class="field">
        <span>
          {at === 0 ? 'One sentence' : 'Another sentence'}
          {meaning && `: ${meaning}`}
        </span>
        <input
          type="text"
          autocomplete="off"
          spellcheck={false}
          maxLength={160}
          value={sentence.value}
          onInput={(event) => {
            onlyHere.value = null;
            sentence.value = event.currentTarget.value;
          }}
        />
      </label>
      <Strip name={`“${shown}” before`} of={input} largest={largest} />
      <fieldset class="row-of-tokens" aria-label={`What “${shown}” attends to, by token`}>
        {tokens.map((token, i) => (
          <button
            type="button"
            key={i}
            class={`weighted ${i === place ? 'query' : ''} ${isWord(token) ? '' : 'mark'}`}
            style={{ '--share': row?.[i] ?? 0 }}
            aria-pressed={i === place}
            disabled={!isWord(token) || isOutdated.value}
            onClick={() => choose(token)}
          >
            {token} <small>{row ? percent(row[i]!) : '…'}</small>
          </button>
        ))}
      </fieldset>
      <Strip name={`“${shown}” after${isPartial.value ? ' layer 1' : ''}`} of={output} largest={largest} />
      {onlyHere.value?.at === at && (
        <p class="facts" role="status">
          “{onlyHere.value.token}” is only in this sentence. Write it into the other one to compare it.
        </p>
      )}
    </div>
  );
}

/** The first entries of a vector as colours. */
function Strip({ name, of, largest }: { name: string; of: readonly number[]; largest: number }) {
  return (
    <div class="strip-of-vector">
      <span>{name}</span>
      <div role="img" aria-label={`${name}: the first ${of.length} of ${width} numbers, as colours`}>
        {of.map((value, i) => (
          <i
            key={i}
            class={value < 0 ? 'negative' : ''}
            style={{ '--heat': Math.abs(value) / largest }}
            title={value.toFixed(3)}
          />
        ))}
      </div>
    </div>
  );
}
