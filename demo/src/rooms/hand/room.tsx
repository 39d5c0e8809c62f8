/** Attention by hand: every step from the input to the output, as matrices that light up together. */
import type { ComponentChildren } from 'preact';
import { Notice } from '../../components/controls';
import { Waiting } from '../../components/waiting';
import { Explanation } from './explanation';
import { noticeOf } from './presets';
import { failure, result } from './result';
import { Settings } from './settings';
import { hand } from './state';
import { Input, Mask, Output, Projections, Scores, Weights } from './steps';

export function HandRoom() {
  const notice = noticeOf(hand.preset.value);
  return (
    <>
      <Intro />
      <div class="workbench">
        <Settings />
        <div class="flow">
          {notice && <Notice>{notice}</Notice>}
          {failure.value && (
            <Notice kind="alert" title="This cannot be computed. ">
              {failure.value.message}
            </Notice>
          )}
          <Steps />
        </div>
      </div>
    </>
  );
}

function Intro(): ComponentChildren {
  return (
    <header class="room-head">
      <h1>Attention by hand</h1>
      <p class="lede">
        A query asks, keys answer, values are mixed. Change any number; point at any row and see where it goes.
      </p>
    </header>
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
        <Scores {...current} />
        <Mask {...current} />
        <Weights {...current} />
        <Output {...current} />
      </div>
    </>
  );
}
