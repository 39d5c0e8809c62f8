/** Attention by hand: every step from the input to the output, as matrices with a shared focus. */
import { Notice } from '../../components/controls';
import { Examples } from '../../components/examples';
import { Waiting } from '../../components/waiting';
import { Explanation } from './explanation';
import { PositionPlots } from './positions';
import { presets } from './presets';
import { failure, result } from './result';
import { Settings } from './settings';
import { hand, setAll } from './state';
import { Input, Mask, Output, Projections, Scores, Weights } from './steps';
import { ResultStrip } from './strip';

export function HandPage() {
  return (
    <>
      <header class="page-head">
        <h1>Attention by hand</h1>
        <p class="lede">
          Each query is compared with all keys; the results weight the values. Choose an example, point at a row, or
          edit a number.
        </p>
      </header>
      <Examples
        examples={presets}
        chosen={hand.preset.value}
        choose={({ id, settings, at }) => setAll({ ...settings, preset: id }, at)}
      />
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
