/** Drop a Hugging Face encoder folder, or name its URL: what is in it, then the same views as for the shipped model. */
import { useEffect, useState } from 'preact/hooks';
import { Choice, Notice } from '../../components/controls';
import { bytes, count, milliseconds, percent, plural } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { info, ready } from '../../engine/client';
import { Sentences, Views } from '../text/explorer';
import { chosenFiles, droppedFiles } from './drop';
import { dtype, explorer, failure, files, openFiles, openUrl, progress, summary, url } from './state';

export function ModelRoom() {
  return (
    <>
      <header class="room-head">
        <h1>Your model</h1>
        <p class="lede">
          BERT, RoBERTa, DistilBERT, MPNet, ALBERT … as Hugging Face stores them: config.json, tokenizer.json and
          model.safetensors. The files are read in this tab and sent nowhere.
        </p>
      </header>
      {ready.value ? <Source /> : <Waiting what="The place for your model" />}
      {failure.value && (
        <Notice kind="alert" title="This could not be opened. ">
          {failure.value.message}
          {summary.value && ' The model from before is still open.'}
          {failure.value.download && <Downloads of={failure.value.download} />}
        </Notice>
      )}
      {progress.value && (
        <p role="status">
          <label>
            Reading {progress.value.file} {percent(progress.value.share)}
            <progress value={progress.value.share} max={1} />
          </label>
        </p>
      )}
      <Contents />
      {summary.value?.hasTokenizer === false && (
        <Notice kind="alert">
          There is no tokenizer.json, so this page cannot turn text into tokens. Add the file and drop the folder again.
        </Notice>
      )}
      {summary.value?.hasTokenizer && info.value && (
        <>
          <Sentences explorer={explorer} />
          <Views explorer={explorer} />
        </>
      )}
    </>
  );
}

/** The way on, where a host or this page's own policy forbids reading from elsewhere. */
function Downloads({ of }: { of: string[] }) {
  return (
    <>
      <p>
        The host may not let other pages read its files, or this page may not read from other hosts. The browser itself
        can: save these files into one folder, then drop it here.
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

function Source() {
  const [over, setOver] = useState(false);
  // Anywhere on the page counts: a folder that misses its target would make the browser leave.
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
        if (event.dataTransfer) void droppedFiles(event.dataTransfer).then(openFiles);
      },
    };
    const stop = new AbortController();
    for (const [name, listener] of Object.entries(listeners))
      addEventListener(name, listener as EventListener, { signal: stop.signal });
    return () => stop.abort();
  }, []);
  return (
    <section class={`drop ${over ? 'over' : ''}`} aria-label="Where the model is">
      <h2>{over ? 'Let go' : 'Drop a model’s folder on this page'}</h2>
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
              if (input.files?.length) void openFiles(chosenFiles(input.files));
              input.value = '';
            }}
          />
        </label>
        <Choice
          label="Weights as"
          state={dtype}
          options={[
            ['fp32', 'fp32: exact'],
            ['q8', 'int8: smaller, faster'],
          ]}
        />
      </div>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void openUrl();
        }}
      >
        <label class="field">
          or the folder’s URL, here or on a host that lets other pages read it
          <input
            type="text"
            inputMode="url"
            autocomplete="off"
            placeholder="https://…/my-encoder/"
            value={url.value}
            onInput={(event) => (url.value = event.currentTarget.value)}
          />
        </label>
        <button type="submit" class={url.value && !summary.value ? 'first' : ''} disabled={progress.value !== null}>
          Open
        </button>
      </form>
      {!summary.value && (
        <p class="learn">
          None at hand? From the “Files” tab of a small encoder’s page at Hugging Face, such as all-MiniLM-L6-v2 (90
          MB), save config.json, tokenizer.json and model.safetensors into one folder.
        </p>
      )}
    </section>
  );
}

function Contents() {
  const model = summary.value;
  if (!model) return null;
  const rows: [string, string][] = [
    ['Family', model.family],
    [
      'Shape',
      `${plural(model.layers, 'layer')}, ${plural(model.heads, 'head')}, width ${model.width}, feed-forward ${model.feedForward}`,
    ],
    ['Parameters', count(model.parameters)],
    ['Vocabulary', plural(model.vocabulary, 'token')],
    ['Longest text', plural(model.maxLength, 'token')],
    ['Sentence vector', `${model.pooling} pooling`],
    ['Computed as', model.dtype === 'q8' ? 'int8' : 'fp32'],
    ['Opened in', milliseconds(model.milliseconds)],
  ];
  if (model.unusedTensors)
    rows.push(['Left aside', `${plural(model.unusedTensors, 'tensor')} that the encoder does not need`]);
  return (
    <section class="panel" aria-labelledby="contents">
      <h2 id="contents">What is in it</h2>
      {files.value.length > 0 && (
        <p class="facts">A copied link brings the settings and the sentences, not the files.</p>
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
