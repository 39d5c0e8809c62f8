/** Attention computed by hand: one cell on one screen; on demand, every step from the input to the output, as matrices with a shared focus. */
import { Notice, Toggle } from '../../components/controls';
import { Examples } from '../../components/examples';
import { V } from '../../components/formula';
import { lazy } from '../../components/lazy';
import { Waiting } from '../../components/waiting';
import { pointAt } from '../../state/device';
import { completeState } from '../../state/url';
import { carried, notice } from './carried';
import { Cell } from './cell';
import { Input, Projections } from './inputs';
import { loadPositions, loadTour } from './later';
import { presets } from './presets';
import { failure, followHand, result, settled } from './result';
import { Settings, scaled } from './settings';
import { headOf, type StepProps } from './shown';
import { hand, input, isOpen, setAll } from './state';
import { PairMatrix } from './step';
import { HeadChoice, Mask, Output, Scores, Weights } from './steps';
import { ResultStrip } from './strip';
import { tour, tourReady } from './tour-state';

completeState('compute');
followHand();

const PositionPlots = lazy(() => loadPositions().then(({ PositionPlots }) => PositionPlots));
const Tour = lazy(() => loadTour().then(({ Tour }) => Tour));

export function ComputePage() {
  return (
    <>
      {tour.value > 0 ? <Tour /> : <Opening />}
      {(tour.value === 0 || tourReady.value) && <Workbench />}
    </>
  );
}

function Workbench() {
  const current = result.value;
  // The texts of the tour are about all matrices.
  const showsAll = isOpen.value || tour.value > 0;
  return (
    <>
      {failure.value && (
        <Notice kind="alert" title="The matrices could not be computed. ">
          {failure.value.message}
        </Notice>
      )}
      {current ? (
        <div class="one-cell">
          <Overview {...current} />
          <Cell {...current} />
        </div>
      ) : (
        <Waiting what="The matrices" />
      )}
      {current && (
        <details
          class="all-matrices"
          open={showsAll}
          onToggle={(event) => {
            if (tour.peek() === 0) isOpen.value = event.currentTarget.open;
          }}
        >
          <summary>Settings and all matrices; you can edit every number</summary>
          {showsAll && settled.value && (
            <div class="workbench">
              <Settings />
              <div class="flow">
                <Steps {...settled.value} />
              </div>
            </div>
          )}
        </details>
      )}
    </>
  );
}

/** The attention weights, whose cells choose what is computed, and the switches that matter most. */
function Overview(current: StepProps) {
  return (
    <div class="overview">
      <PairMatrix
        id="attention"
        symbol={<V>A</V>}
        caption="Attention weights: choose a cell"
        note={`one row per query, one column per key. ${pointAt} a cell to compute it.`}
        values={current.result.heads[headOf(current.result)]!.weights}
        input={current.input}
        tone="weight"
      />
      <HeadChoice heads={current.result.heads.length} />
      <div class="switches">
        <Toggle label="Scale by 1/√d" state={scaled} />
        <Toggle label="Causal" state={hand.causal} />
      </div>
    </div>
  );
}

function Opening() {
  const { queryNames, queryWeight } = input.value;
  const isCarried = hand.preset.value === carried;
  return (
    <>
      <header class="page-head compact">
        <h1>Compute</h1>
        <p class="lede">
          One attention weight by hand: a query times a key, the softmax, the average of the values.{' '}
          <a href="#compute?tour=1">Why does it have these parts?</a>
        </p>
      </header>
      <Examples
        examples={presets}
        chosen={hand.preset.value}
        choose={({ id, settings, at }) => setAll({ ...settings, preset: id }, at)}
        {...(isCarried && { otherwise: notice(queryNames[0]!, queryWeight[0]!.length) })}
      />
    </>
  );
}

function Steps(current: StepProps) {
  return (
    <>
      <div class="steps">
        <Input {...current} />
        <Projections {...current} />
      </div>
      {current.input.positions.mode !== 'none' && <PositionPlots />}
      <div class="steps">
        <Scores {...current} />
        <Mask {...current} />
        <Weights {...current} />
        <Output {...current} />
      </div>
      <ResultStrip {...current} />
    </>
  );
}
