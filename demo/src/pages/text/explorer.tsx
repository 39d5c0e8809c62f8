/** The views of a model on the reader's sentences: attention, similarity, hidden states. */
import { Notice } from '../../components/controls';
import { HeadAttention } from '../../components/head-attention';
import { milliseconds, plural, short } from '../../components/numbers';
import { HeadEffect, HeadGrid } from './heads';
import { Projection } from './projection';
import { Similarity } from './similarity';
import { type Explorer, maxSentences, within } from './state';

export function Sentences({ explorer }: { explorer: Explorer }) {
  const { which, written, texts, linesLeftOut } = explorer;
  return (
    <div class="sentences">
      <header>
        <h2>
          <label for={`${which}-written`}>Your sentences</label>
        </h2>
        <p class="timing">one per line; the results are updated as you type</p>
      </header>
      <textarea
        id={`${which}-written`}
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
      <Similarity explorer={explorer} />
    </div>
  );
}

export function Views({ explorer }: { explorer: Explorer }) {
  if (explorer.texts.value.length === 0) return null;
  return (
    <>
      {explorer.failure.value && (
        <Notice kind="alert" title="The model could not process this text. ">
          {explorer.failure.value.message}
        </Notice>
      )}
      <Attention explorer={explorer} />
      <Projection explorer={explorer} />
    </>
  );
}

function Attention({ explorer }: { explorer: Explorer }) {
  const { attention, texts, sentence, layer, head, view, token } = explorer;
  const current = attention.value;
  if (!current) return null;
  const length = current.tokens.length;
  const l = within(layer.value, current.weights.length);
  const h = within(head.value, current.weights[l]!.length);
  return (
    <section class="panel" aria-labelledby={`${explorer.which}-attention`}>
      <header>
        <h2 id={`${explorer.which}-attention`}>Attention</h2>
        <p class="timing">
          {plural(length, 'token')} through {plural(current.weights.length, 'layer')} in{' '}
          {milliseconds(current.milliseconds)}
        </p>
      </header>
      <p class="learn">
        Each head computes its own attention weights: one row per query, one column per key; stronger colours are larger
        weights. Select a head to enlarge it, or switch it off to see how the sentences’ vectors change.
      </p>
      {texts.value.length > 1 && (
        <label class="field inline">
          Sentence
          <select
            value={within(sentence.value, texts.value.length)}
            onChange={(event) => (sentence.value = Number(event.currentTarget.value))}
          >
            {texts.value.map((line, i) => (
              <option key={i} value={i}>
                {i + 1}. {short(line)}
              </option>
            ))}
          </select>
        </label>
      )}
      {current.notRead > 0 && (
        <Notice>
          The last {plural(current.notRead, 'token')} {current.notRead === 1 ? 'was' : 'were'} not read: the text is
          longer than the model’s limit.
        </Notice>
      )}
      {current.notShown > 0 && (
        <Notice>
          Only the first {length} tokens are shown; {current.notShown} more were computed.
        </Notice>
      )}
      <div class="attention">
        <div>
          <h3>All heads</h3>
          <HeadGrid explorer={explorer} view={current} />
          <HeadEffect explorer={explorer} />
        </div>
        <HeadAttention
          layer={l}
          head={h}
          view={view}
          tokens={current.tokens}
          weights={current.weights[l]![h]!}
          pinned={token}
        />
      </div>
    </section>
  );
}
