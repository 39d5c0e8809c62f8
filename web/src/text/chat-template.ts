/**
 * Chat templates: models that were trained on chats read a text as a message, or a pair as a message of the role
 * `query` and one of the role `document`, with the prompt as a message of the role `system`. As in
 * sentence-transformers 6.2 and transformers' `apply_chat_template`. Imported on demand.
 */
import { Environment, Interpreter, Template } from '@huggingface/jinja';
import { HeedError, invalid, invalidFile } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { type ModelFolder, readAll } from '../io/files.js';
import type { Settings } from '../io/settings.js';

interface Value {
  type: string;
  value: unknown;
}
interface Node {
  type: string;
  value?: string | undefined;
  callee?: { value: string } | undefined;
}
/** The parts of the library that are private. */
interface Parts {
  applyFilter(operand: Value, filter: Node, environment: Environment): Value;
  evaluateBlock(statements: Node[], environment: Environment): Value;
  evaluate(statement: Node, environment: Environment): Value;
}

// The library differs from Jinja in values that templates rely on. `first` and `last` of an empty list are undefined, as
// in `| first | default(...)`; filters of strings take what is undefined as an empty string; and true, false and none
// are printed as Python does.
const library = Interpreter.prototype as unknown as Parts;
const { applyFilter, evaluateBlock } = library;
const empty: Value = new Interpreter(new Environment()).run(new Template('').parsed);
const KEPT = ['default', 'first', 'last', 'tojson'];
const PRINTS_NOTHING = [
  'Set',
  'If',
  'For',
  'Macro',
  'Comment',
  'Break',
  'Continue',
  'CallStatement',
  'FilterStatement',
];

library.applyFilter = function (this: Parts, operand, filter, environment) {
  const name = filter.value ?? filter.callee?.value ?? '';
  const isMissing = operand.type === 'UndefinedValue';
  if (isMissing && (name === 'first' || name === 'last')) return operand;
  const given = isMissing && !KEPT.includes(name) ? empty : operand;
  return applyFilter.call(this, given, filter, environment) ?? environment.lookupVariable('');
};

library.evaluateBlock = function (this: Parts, statements, environment) {
  let text = '';
  for (const statement of statements) {
    const value = this.evaluate(statement, environment);
    if (value.type === 'BooleanValue') text += value.value ? 'True' : 'False';
    else if (value.type === 'NullValue') text += PRINTS_NOTHING.includes(statement.type) ? '' : 'None';
    else if (value.type !== 'UndefinedValue') text += String(value);
  }
  return evaluateBlock.call(this, [{ type: 'StringLiteral', value: text }], environment);
};

/** How a folder renders its texts, as its Transformer's settings say. */
export interface ChatSettings {
  /** Whether a message's content is a text ('flat') or a list of parts; 'auto': as the template expects. */
  format: 'auto' | 'flat' | 'structured';
  /** The variables of the template, or the template's name: `processing_kwargs.chat_template`. */
  options: Record<string, unknown>;
  /** Whether the tokens after the text are kept when a text is cut. */
  restoresEnd: boolean;
  /** Whether only pairs are rendered, as for rerankers without modules.json. */
  onlyPairs: boolean;
}

/** A text, or a pair, and what goes with it. */
export interface ChatInput {
  text: string;
  pair: string | undefined;
  prompt: string;
  task: string | undefined;
}

type Message = { role: string; content: string | { type: 'text'; text: string }[] };

/** Families whose templates take texts, whatever they contain. */
const FLAT = ['apertus', 'deepseek_v3', 'gpt_oss', 'seed_oss'];
/** What a template contains that takes lists of parts. */
const STRUCTURED = ['content[0]', '.type', "'type'", '"type"', 'item.type', 'message.content['];
const SPECIAL = ['bos', 'eos', 'unk', 'sep', 'pad', 'cls', 'mask'].map((name) => `${name}_token`);

/**
 * Opens the template of the model in `within`; null if it has none. `config`: tokenizer_config.json.
 * @throws HeedError INVALID_FILE if the folder's settings need a template
 */
export async function openChatTemplate(
  folder: ModelFolder,
  within: string,
  config: Settings | null,
  type: string,
  settings: ChatSettings,
  signal: SignalLike | undefined,
): Promise<ChatTemplate | null> {
  const named = await templatesIn(folder, within, config, settings.options.chat_template, signal);
  if (!named) {
    if (settings.onlyPairs) return null;
    throw invalidFile('chat_template.jinja', "a chat template, as modality_config has 'message'", 'none');
  }
  const specials = SPECIAL.flatMap((name) => {
    const given = config?.get(name) as string | { content?: unknown } | undefined;
    const token = typeof given === 'object' ? given.content : given;
    return typeof token === 'string' ? [[name, token] as const] : [];
  });
  const { chat_template: _, ...options } = settings.options;
  return new ChatTemplate(...named, type, settings, { ...Object.fromEntries(specials), ...options });
}

/** The template, its file, and whether it is one of several. */
async function templatesIn(
  folder: ModelFolder,
  within: string,
  config: Settings | null,
  chosen: unknown,
  signal: SignalLike | undefined,
): Promise<[source: string, file: string, isNamed: boolean] | null> {
  if (chosen !== undefined && typeof chosen !== 'string')
    throw invalidFile(
      'processing_kwargs.chat_template.chat_template',
      'a template or its name',
      JSON.stringify(chosen),
    );
  const read = async (path: string) => {
    const file = await folder.open(within + path, { signal });
    return file && new TextDecoder().decode(await readAll(file));
  };
  const file = 'chat_template.jinja';
  const own = await read(file);
  const key = 'chat_template';
  const given = config?.get(key);
  if (own === null && given !== undefined && typeof given !== 'string') {
    if (!Array.isArray(given)) throw config!.wrong(key, 'a template, or a list of named ones', given);
    const list = given as { name?: unknown; template?: unknown }[];
    const wanted = list.find((each) => each?.name === (chosen ?? 'default')) ?? null;
    if (typeof wanted?.template === 'string') return [wanted.template, config!.file, true];
    if (chosen !== undefined) return [chosen, config!.file, true];
    throw config!.wrong(
      key,
      "a template named 'default'",
      list.map((each) => each?.name),
    );
  }
  const source = own ?? (given as string | undefined);
  const isName = chosen !== undefined && /^[\w.-]+$/.test(chosen);
  const additional = isName ? await read(`additional_chat_templates/${chosen}.jinja`) : null;
  if (additional !== null) return [additional, `additional_chat_templates/${chosen}.jinja`, true];
  if (source === undefined) return null;
  if (chosen !== undefined && chosen !== 'default') return [chosen, 'processing_kwargs.chat_template', false];
  return [source, own === null ? config!.file : file, false];
}

/** A chat template with its variables. */
export class ChatTemplate {
  /** Whether the tokens after the text are kept when a text is cut. */
  readonly restoresEnd: boolean;
  /** Whether only pairs are rendered. */
  readonly onlyPairs: boolean;
  readonly #template: Template;
  readonly #file: string;
  readonly #isFlat: boolean;
  readonly #usesTask: boolean;
  readonly #variables: Record<string, unknown>;
  /** Token ids after the text, by what the template renders besides it. */
  readonly #ends = new Map<string, number[]>();
  #checksPairs = true;

  constructor(
    source: string,
    file: string,
    isNamed: boolean,
    type: string,
    { format, restoresEnd, onlyPairs }: ChatSettings,
    variables: Record<string, unknown>,
  ) {
    this.#file = file;
    this.restoresEnd = restoresEnd;
    this.onlyPairs = onlyPairs;
    this.#variables = variables;
    const takesTexts = FLAT.includes(type) || (!isNamed && !STRUCTURED.some((part) => source.includes(part)));
    this.#isFlat = format === 'auto' ? takesTexts : format === 'flat';
    this.#usesTask = /\{[{%][^}]*\btask\b/.test(source);
    try {
      // transformers marks with `generation` what an assistant says; rendering ignores it.
      this.#template = new Template(source.replace(/\{%-?\s*(?:end)?generation\s*-?%\}/g, ''));
    } catch (cause) {
      throw this.#failure(cause);
    }
  }

  #failure(cause: unknown): HeedError {
    const got = `a template that fails (${(cause as Error).message})`;
    return invalid(this.#file, "a chat template in Jinja's language", got, 'INVALID_FILE', { cause });
  }

  /** The text that the model reads. */
  render(input: ChatInput): string {
    if (input.pair !== undefined && this.#checksPairs) {
      this.#requirePairs();
      this.#checksPairs = false;
    }
    return this.#render(input);
  }

  #render({ text, pair, prompt, task }: ChatInput): string {
    const messages: Message[] = prompt === '' ? [] : [this.#message('system', prompt)];
    if (pair === undefined) messages.push(this.#message('user', text));
    else messages.push(this.#message('query', text), this.#message('document', pair));
    const variables = {
      tools: null,
      documents: null,
      add_generation_prompt: false,
      ...(this.#usesTask && task !== undefined && { task }),
      ...this.#variables,
    };
    try {
      return this.#template.render({ ...variables, messages });
    } catch (cause) {
      throw this.#failure(cause);
    }
  }

  #message(role: string, text: string): Message {
    return { role, content: this.#isFlat ? text : [{ type: 'text', text }] };
  }

  /** Rejects a template that leaves out the texts of a pair, such as one that knows only users and assistants. */
  #requirePairs(): void {
    const given = (text: string, pair: string) => this.#render({ text, pair, prompt: '', task: undefined });
    let dropped: string[];
    try {
      const base = given('alpha', 'bravo');
      const varied = { query: given('charlie', 'bravo'), document: given('alpha', 'foxtrot') };
      dropped = Object.entries(varied).flatMap(([role, text]) => (text === base ? [`'${role}'`] : []));
    } catch (cause) {
      if (!(cause instanceof HeedError)) throw cause;
      dropped = ["'query'", "'document'"];
    }
    if (dropped.length === 0) return;
    const expected = "a chat template that renders messages of the roles 'query' and 'document'";
    throw invalid(this.#file, expected, `one that leaves out ${dropped.join(' and ')}`, 'UNSUPPORTED');
  }

  /**
   * The ids of the tokens that follow the text in every rendering: those at the end that two different texts share.
   * `idsOf`: tokenizes a rendered text.
   */
  endOf({ pair, prompt, task }: ChatInput, idsOf: (rendered: string) => number[]): number[] {
    const isPair = pair !== undefined;
    const key = JSON.stringify([isPair, prompt, task]);
    let end = this.#ends.get(key);
    if (end) return end;
    const render = (text: string) => idsOf(this.#render({ text, pair: isPair ? text : undefined, prompt, task }));
    const [first, second] = [render('0'), render('1 2 3 4')];
    const shortest = Math.min(first.length, second.length);
    let count = 0;
    while (count < shortest && first.at(-1 - count) === second.at(-1 - count)) count++;
    end = count > 0 && count < shortest ? first.slice(-count) : [];
    if (this.#ends.size >= 256) this.#ends.clear();
    this.#ends.set(key, end);
    return end;
  }
}
