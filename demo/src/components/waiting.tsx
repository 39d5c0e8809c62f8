/** What stands where a result will be, until the module or the model is there; or why it never will. */
import { failure, info, shippedProgress } from '../engine/client';
import { Notice } from './controls';
import { percent } from './numbers';

const requirement =
  'This page needs WebAssembly with SIMD: Chrome or Edge 91, Firefox 89, Safari 16.4 or newer. On an up-to-date browser, check that no extension or enterprise policy turns WebAssembly off.';

export function Waiting({ what, progress = false }: { what: string; progress?: boolean }) {
  if (failure.value) {
    const { code, message } = failure.value;
    return (
      <Notice
        kind="alert"
        title={code === 'UNSUPPORTED' ? 'This browser is too old for heed. ' : 'heed could not start. '}
      >
        <p>{message}</p>
        {code === 'UNSUPPORTED' ? (
          <p>{requirement}</p>
        ) : (
          <p>
            <button type="button" onClick={() => location.reload()}>
              Try again
            </button>
          </p>
        )}
      </Notice>
    );
  }
  return (
    <p class="waiting" role="status">
      {what} will stand here as soon as the {info.value ? 'model' : 'module'} has loaded
      {progress && shippedProgress.value > 0 ? ` (${percent(shippedProgress.value)})` : ''}.
    </p>
  );
}
