/** A model on the reader's sentences: attention, similarity, hidden states. */

import { Choice, Notice } from '../../components/controls';
import { milliseconds, plural, short } from '../../components/numbers';
import { TokenAttention } from '../../components/token-attention';
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
        <p class="timing">one a line; everything below follows as you type</p>
      </header>
      <textarea
        id={`${which}-written`}
        rows={Math.min(12, Math.max(4, written.value.split('\n').length))}
        value={written.value}
        onInput={(event) => (written.value = event.currentTarget.value)}
        spellcheck={false}
      />
      {texts.value.length === 0 && <Notice>Write a sentence to see what the model makes of it.</Notice>}
      {linesLeftOut.value > 0 && (
        <Notice>
          {plural(linesLeftOut.value, 'further line')} left out: this page compares {maxSentences} at a time.
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
        <Notice kind="alert" title="This text cannot be computed. ">
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
        Each head decides for itself which tokens to look at: rows ask, columns answer, and the darker the cell, the
        larger the share. Choose a head to see it large; switch it off to see what the sentences’ vectors lose.
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
          {plural(current.notRead, 'token')} at the end not read: the text is longer than the model’s limit.
        </Notice>
      )}
      {current.notShown > 0 && (
        <Notice>
          The first {length} tokens are shown; {current.notShown} more were computed.
        </Notice>
      )}
      <div class="attention">
        <div>
          <h3>All heads</h3>
          <HeadGrid explorer={explorer} view={current} />
          <HeadEffect explorer={explorer} />
        </div>
        <div>
          <div class="bar">
            <h3>
              Layer {l + 1}, head {h + 1}
            </h3>
            <Choice
              label="Show as"
              state={view}
              options={[
                ['lines', 'lines'],
                ['map', 'heat map'],
              ]}
            />
          </div>
          <TokenAttention tokens={current.tokens} weights={current.weights[l]![h]!} view={view.value} pinned={token} />
        </div>
      </div>
    </section>
  );
}
