/** Stands in for a result until the module or the model has loaded, or explains why it cannot be loaded. */
import type { Failure } from '../engine/failure';
import { build, failure, heed, isRetrying, retry, shippedProgress } from '../engine/heed';
import { Notice } from './controls';
import { Failed } from './failed';
import { percent } from './numbers';

const requirement =
  'This page needs WebAssembly with SIMD: Chrome or Edge 91, Firefox 89, Safari 16.4 or newer. On an up-to-date browser, check that no extension or enterprise policy turns WebAssembly off.';

export function Waiting({ what, progress = false }: { what: string; progress?: boolean }) {
  if (failure.value) return <NotLoaded of={failure.value} />;
  return (
    <div class="waiting">
      <p role="status">
        {what} will appear here when the {heed.value ? 'model' : 'module'} has loaded.
      </p>
      {progress && heed.value && <LoadingBar />}
    </div>
  );
}

/** Without a value if the server does not report sizes. */
function LoadingBar() {
  const share = shippedProgress.value;
  return (
    <p class="timing">
      <progress aria-label="The model" {...(share > 0 && { value: share, max: 1 })} /> {share > 0 && percent(share)}
    </p>
  );
}

/** Why the module or the model is not there. */
export function NotLoaded({ of }: { of: Failure }) {
  const { code, message } = of;
  if (code !== 'UNSUPPORTED')
    return (
      <Failed
        what="The model"
        {...((!heed.value || code === 'WORKER_FAILED') && { title: 'heed could not start. ' })}
        of={of}
        retry={retry}
        isTrying={isRetrying.value}
      />
    );
  if (build.value === 'auto')
    return (
      <Notice kind="alert" title="This browser does not support heed. ">
        <p>{message}</p>
        <p>{requirement}</p>
      </Notice>
    );
  return (
    <Notice kind="alert" title="This browser does not support the selected build. ">
      <p>{message}</p>
      <p>
        <button
          type="button"
          onClick={() => {
            build.value = 'auto';
          }}
        >
          Select the build automatically
        </button>
      </p>
    </Notice>
  );
}
