/** The first page: a sentence that one edits, and the attention of one head, which moves with it. */
import { Notice } from '../../components/controls';
import { percent } from '../../components/numbers';
import { TokenAttention } from '../../components/token-attention';
import { Waiting } from '../../components/waiting';
import { shipped } from '../../engine/heed';
import { asEntry, links } from '../../state/url';
import { loadCarried } from '../hand/later';
import { mostWords } from '../hand/limits';
import { others, sentence, shown } from './opening';
import { failure, token, type View, view, written } from './state';

export function StartPage() {
  const current = view.value;
  return (
    <>
      <header class="page-head">
        <h1>See how attention works</h1>
        <p class="lede">
          Attention computes a new vector for each word: a weighted average over all words of the sentence. These are
          the weights of one head of a small encoder that runs in this tab. Change a word to see how they change.
        </p>
      </header>
      <label class="field sentence">
        <span class="unseen">A sentence</span>
        <input
          type="text"
          autocomplete="off"
          spellcheck={false}
          maxLength={120}
          value={written.value}
          onInput={(event) => (written.value = event.currentTarget.value)}
        />
      </label>
      <section class="examples" aria-label="Sentences to try">
        <div class="presets">
          {[{ sentence }, ...others].map(({ sentence: example }) => (
            <button
              type="button"
              key={example}
              aria-pressed={written.value === example}
              onClick={() => asEntry(() => (written.value = example))}
            >
              {example}
            </button>
          ))}
        </div>
      </section>
      {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
      {current ? <Head {...current} /> : <Waiting what="The attention weights" progress />}
    </>
  );
}

function Head(current: View) {
  const { tokens, weights } = current;
  const query = token.value !== null && token.value < tokens.length ? token.value : null;
  return (
    <div class="opening-head">
      <section aria-labelledby="start-head">
        <h2 id="start-head">
          Layer {shown.layer + 1}, head {shown.head + 1}
        </h2>
        <TokenAttention tokens={tokens} weights={weights} pinned={token} />
      </section>
      <section aria-labelledby="start-weights">
        <h2 id="start-weights">{query === null ? 'Select a token' : `What “${tokens[query]}” attends to`}</h2>
        {query !== null && <Shares {...current} query={query} />}
        <Ways {...current} query={query ?? 0} />
      </section>
    </div>
  );
}

function Shares({ tokens, weights, query }: View & { query: number }) {
  const row = weights.subarray(query * tokens.length, (query + 1) * tokens.length);
  return (
    <ol class="shares" style={{ '--rows': tokens.length }}>
      {tokens.map((name, key) => (
        <li key={key} style={{ '--share': row[key]! }}>
          <span>{name}</span> <span class="score">{percent(row[key]!)}</span>
        </li>
      ))}
    </ol>
  );
}

/** Where to go from here. */
const byHand = async (...given: Parameters<Awaited<ReturnType<typeof loadCarried>>['computeByHand']>) =>
  (await loadCarried()).computeByHand(...given);

function Ways({ tokens, vectors, query, weights }: View & { query: number }) {
  const row = weights.subarray(query * tokens.length, (query + 1) * tokens.length);
  const key = row.indexOf(Math.max(...row));
  const isShort = tokens.length <= mostWords;
  return (
    <div class="ways">
      {vectors && isShort ? (
        <button type="button" class="first" onClick={() => byHand(tokens, vectors, query, key)}>
          Compute this weight by hand
        </button>
      ) : (
        <button type="button" class="first" disabled>
          Compute this weight by hand
        </button>
      )}
      <p class="timing">
        {!isShort
          ? `Available for up to ${mostWords} tokens.`
          : vectors
            ? `With the model’s query of “${tokens[query]}” and the keys of all tokens.`
            : shipped.value
              ? 'The model is reading the sentence …'
              : 'Available when the model has loaded.'}
      </p>
      <p>
        <a href="#hand?tour=1">Why does it work? A tour in six steps</a>
      </p>
      <p>
        <a href={links.text.value}>All heads, similarity and search on your text</a>
      </p>
    </div>
  );
}
