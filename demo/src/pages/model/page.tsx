/** Opens a Hugging Face encoder from a folder or a URL, lists its contents, and shows the same views as for the shipped model. */
import { useEffect, useState } from 'preact/hooks';
import { Choice, Notice } from '../../components/controls';
import { bytes, count, milliseconds, percent, plural } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { ready } from '../../engine/heed';
import { Sentences, Views } from '../text/explorer';
import { chosenFiles, droppedFiles } from './drop';
import { dtype, explorer, failure, files, opened, openFiles, openUrl, progress, url } from './state';

export function ModelPage() {
  const config = opened.value?.model.config;
  return (
    <>
      <header class="page-head">
        <h1>Your model</h1>
        <p class="lede">
          Open a BERT, RoBERTa, DistilBERT, MPNet or ALBERT model in the Hugging Face format: config.json,
          tokenizer.json and model.safetensors. The files are read in this tab and are not uploaded.
        </p>
      </header>
      {ready.value ? <Source /> : <Waiting what="The form to open a model" />}
      {failure.value && (
        <Notice kind="alert" title="The model could not be opened. ">
          {failure.value.message}
          {opened.value && ' The previous model is still open.'}
          {failure.value.download && <Downloads of={failure.value.download} />}
        </Notice>
      )}
      {progress.value && (
        <p role="status">
          <label>
            Loading {progress.value.file} {percent(progress.value.share)}
            <progress value={progress.value.share} max={1} />
          </label>
        </p>
      )}
      <Contents />
      {config?.hasTokenizer === false && (
        <Notice kind="alert">
          The folder has no tokenizer.json, which is needed to turn text into tokens. Add the file and open the folder
          again.
        </Notice>
      )}
      {config?.hasTokenizer && (
        <>
          <Sentences explorer={explorer} />
          <Views explorer={explorer} />
        </>
      )}
    </>
  );
}

/** Links to the files, for hosts that this page cannot read from. */
function Downloads({ of }: { of: string[] }) {
  return (
    <>
      <p>
        The host may not allow other sites to read its files, or this page may not be allowed to read from other hosts.
        Save these files into one folder instead, then drop it here.
      </p>
      <ul>
        {of.map((href) => (
          <li key={href}>
            <a href={href} target="_blank" rel="noreferrer" download>
              {href.split('/').at(-1)}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

const noFiles =
  'The browser passed on no files. Some browsers do not let a page read a dropped folder; use “Choose a folder” instead.';

function Source() {
  const [over, setOver] = useState(false);
  // On the whole window: if a folder were dropped next to the target, the browser would leave the page.
  useEffect(() => {
    const listeners = {
      dragover: (event: DragEvent) => {
        event.preventDefault();
        setOver(true);
      },
      dragleave: (event: DragEvent) => {
        if (!event.relatedTarget) setOver(false);
      },
      drop: (event: DragEvent) => {
        event.preventDefault();
        setOver(false);
        if (!event.dataTransfer) return;
        void droppedFiles(event.dataTransfer).then((dropped) => {
          if (dropped) openFiles(dropped);
          else failure.value = { message: noFiles };
        });
      },
    };
    const stop = new AbortController();
    for (const [name, listener] of Object.entries(listeners))
      addEventListener(name, listener as EventListener, { signal: stop.signal });
    return () => stop.abort();
  }, []);
  return (
    <section class={`drop ${over ? 'over' : ''}`} aria-label="Model source">
      <h2>{over ? 'Drop the folder to open it' : 'Drop a model folder on this page'}</h2>
      <div class="row">
        <label class="button first">
          Choose a folder
          <input
            class="unseen"
            type="file"
            {...{ webkitdirectory: true }}
            multiple
            onChange={(event) => {
              const input = event.currentTarget;
              if (input.files?.length) openFiles(chosenFiles(input.files));
              input.value = '';
            }}
          />
        </label>
        <Choice
          label="Precision"
          state={dtype}
          options={[
            ['fp32', 'fp32: full precision'],
            ['q8', 'int8: smaller, faster'],
          ]}
        />
      </div>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          openUrl();
        }}
      >
        <label class="field">
          Or enter the folder’s URL; its host must allow other sites to read the files
          <input
            type="text"
            inputMode="url"
            autocomplete="off"
            placeholder="https://…/my-encoder/"
            value={url.value}
            onInput={(event) => (url.value = event.currentTarget.value)}
          />
        </label>
        <button type="submit" class={url.value && !opened.value ? 'first' : ''} disabled={progress.value !== null}>
          Open
        </button>
      </form>
      {!opened.value && (
        <p class="learn">
          No model yet? Go to the “Files” tab of a small encoder on Hugging Face, such as all-MiniLM-L6-v2 (90 MB), and
          save config.json, tokenizer.json and model.safetensors into one folder.
        </p>
      )}
    </section>
  );
}

function Contents() {
  if (!opened.value) return null;
  const { model, milliseconds: time } = opened.value;
  const { config } = model;
  const rows: [string, string][] = [
    ['Family', config.family],
    [
      'Shape',
      `${plural(config.numLayers, 'layer')}, ${plural(config.numHeads, 'head')}, width ${config.embedDim}, feed-forward ${config.feedForwardDim}`,
    ],
    ['Parameters', count(config.parameterCount)],
    ['Vocabulary', plural(config.vocabSize, 'token')],
    ['Maximum length', plural(config.maxLength, 'token')],
    ['Sentence vector', `${config.pooling} pooling`],
    ['Precision', config.dtype === 'q8' ? 'int8' : 'fp32'],
    ['Opened in', milliseconds(time)],
  ];
  if (config.unusedTensors.length)
    rows.push(['Unused', `${plural(config.unusedTensors.length, 'tensor')} that the encoder does not need`]);
  return (
    <section class="panel" aria-labelledby="contents">
      <h2 id="contents">Contents</h2>
      {files.value.length > 0 && (
        <p class="facts">A copied link contains the settings and the sentences, but not the files.</p>
      )}
      <div class="columns">
        <table class="facts-table">
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {files.value.length > 0 && (
          <table class="facts-table">
            <tbody>
              {files.value.slice(0, 20).map(({ path, file }) => (
                <tr key={path}>
                  <th scope="row">{path}</th>
                  <td class="number">{bytes(file.size)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}
