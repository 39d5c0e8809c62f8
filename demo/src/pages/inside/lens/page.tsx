/** The lens changes activations: heads switched off, activations patched from another sentence, the logit lens, steering. */
import { batch, computed } from '@preact/signals';
import { Notice } from '../../../components/controls';
import { Examples } from '../../../components/examples';
import { lazy } from '../../../components/lazy';
import { Readings } from '../../../components/readings';
import { Waiting } from '../../../components/waiting';
import '../../../styles/lens.css';
import { source } from '../../model/choice';
import { failure } from './follow';
import { missing } from './measures';
import { examples, type LensExample } from './presets';
import { Heads, MeasureChoice, Patching, Steering, TextField, Words } from './sections';
import { first, measure, model, off, over, second } from './state';

const Trained = lazy(() => import('./trained').then(({ Trained }) => Trained));

function choose(example: LensExample): void {
  batch(() => {
    first.value = example.first;
    second.value = example.second;
    over.value = example.over;
    measure.value = 'similarity';
    off.value = [];
  });
}

export function Lens() {
  if (source.value === 'trained')
    return (
      <div class="lens">
        <Trained />
      </div>
    );
  return <Pretrained />;
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
        <Readings model={model.value} texts={[first.value, second.value]} />
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
          source.value === 'bundled' && <Waiting what="The lens" progress />
        )}
      </div>
    </>
  );
}
