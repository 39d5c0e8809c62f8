/** Attention by hand: every step from the input to the output, as matrices with a shared focus. */
import { Notice } from '../../components/controls';
import { Examples } from '../../components/examples';
import { lazy } from '../../components/lazy';
import { Waiting } from '../../components/waiting';
import { completeState } from '../../state/url';
import { carried, notice } from './carried';
import { Explanation } from './explanation';
import { loadPositions, loadTour } from './later';
import { presets } from './presets';
import { failure, followHand, result } from './result';
import { Settings } from './settings';
import { hand, input, setAll } from './state';
import { Input, Mask, Output, Projections, Scores, Weights } from './steps';
import { ResultStrip } from './strip';
import { tour, tourReady } from './tour-state';

completeState('hand');
followHand();

const PositionPlots = lazy(() => loadPositions().then(({ PositionPlots }) => PositionPlots));
const Tour = lazy(() => loadTour().then(({ Tour }) => Tour));

export function HandPage() {
  return (
    <>
      {tour.value > 0 ? <Tour /> : <Opening />}
      {(tour.value === 0 || tourReady.value) && <Workbench />}
    </>
  );
}

function Workbench() {
  return (
    <div class="workbench">
      <Settings />
      <div class="flow">
        {failure.value && (
          <Notice kind="alert" title="The matrices could not be computed. ">
            {failure.value.message}
          </Notice>
        )}
        <Steps />
      </div>
    </div>
  );
}

function Opening() {
  const { queryNames, queryWeight } = input.value;
  const isCarried = hand.preset.value === carried;
  return (
    <>
      <header class="page-head">
        <h1>Attention by hand</h1>
        <p class="lede">
          Each query is compared with all keys; the results weight the values. Choose an example, point at a row, or
          edit a number. <a href="#hand?tour=1">Why does it have these parts? A tour in six steps</a>
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

function Steps() {
  const current = result.value;
  if (!current) return <Waiting what="The matrices" />;
  return (
    <>
      <Explanation {...current} />
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
