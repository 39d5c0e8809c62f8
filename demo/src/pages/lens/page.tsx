/** Changing activations: heads switched off, activations patched from another sentence, the logit lens, steering. */
import { batch, computed } from '@preact/signals';
import { Choice, Notice } from '../../components/controls';
import { Examples } from '../../components/examples';
import { lazy } from '../../components/lazy';
import { Waiting } from '../../components/waiting';
import { links } from '../../state/url';
import '../../styles/lens.css';
import { failure } from './follow';
import { missing } from './measures';
import { examples, type LensExample } from './presets';
import { Heads, MeasureChoice, Patching, Steering, TextField, Words } from './sections';
import { first, measure, model, off, over, type Source, second, source, sources } from './state';

const Trained = lazy(() => import('./trained').then(({ Trained }) => Trained));

const sourceNames: Record<Source, string> = {
  bundled: 'bundled',
  own: 'opened by you',
  trained: 'trained by you',
};

function choose(example: LensExample): void {
  batch(() => {
    first.value = example.first;
    second.value = example.second;
    over.value = example.over;
    measure.value = 'similarity';
    off.value = [];
  });
}

export function LensPage() {
  return (
    <>
      <header class="page-head">
        <h1>Lens: change what the model computes</h1>
        <p class="lede">
          Switch off heads, patch activations of one sentence into another, or steer along a direction, and see how the
          result changes.
        </p>
      </header>
      <Model />
      {source.value === 'trained' ? (
        <div class="lens">
          <Trained />
        </div>
      ) : (
        <Pretrained />
      )}
    </>
  );
}

/** Which model is examined, and how others get here. */
function Model() {
  return (
    <div class="lens-model">
      {sources.value.length > 1 && (
        <Choice
          label="Model"
          state={source}
          options={sources.value.map((each) => [each, sourceNames[each]] as const)}
        />
      )}
      {sources.value.length < 3 && (
        <p class="hint">
          {sources.value.includes('own') ? '' : <a href={links.model.value}>Open a model of your own</a>}
          {sources.value.length === 1 ? ', or ' : ''}
          {sources.value.includes('trained') ? '' : <a href={links.learning.value}>train one</a>}, and it can be
          examined here.
        </p>
      )}
    </div>
  );
}

const chosen = computed(() => examples.find((each) => each.first === first.value && each.second === second.value)?.id);

function Pretrained() {
  const hint = model.value && missing(model.value, measure.value, [first.value, second.value]);
  return (
    <>
      {source.value === 'bundled' && (
        <Examples
          examples={examples}
          chosen={chosen.value}
          choose={choose}
          otherwise="These are your own sentences. Each example says what to look for."
        />
      )}
      <div class="lens">
        <div class="sentences-pair">
          <TextField label="First sentence" state={first} />
          <TextField label="Second sentence" state={second} />
        </div>
        <MeasureChoice />
        {hint && <Notice>{hint}</Notice>}
        {failure.value && (
          <Notice kind="alert" title="This could not be computed. ">
            {failure.value.message}
          </Notice>
        )}
        {model.value ? (
          <>
            {!hint && <Heads />}
            {!hint && <Patching />}
            {!hint && <Words />}
            {!hint && <Steering />}
          </>
        ) : (
          <Waiting what="The lens" progress />
        )}
      </div>
    </>
  );
}
