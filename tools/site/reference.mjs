// A plugin of TypeDoc: the menu has the order and the titles of the index of docs/, entries have the names under which programs import
// them, and the page of a class that `load()` returns has its constructor with all options.
import { Converter, DefaultTheme, ReflectionKind } from '../checks/node_modules/typedoc/dist/index.js';
import { coursePages, groups } from './menu.mjs';

/** A theme whose menu has the groups of the index, then the entries with their declarations. */
class Theme extends DefaultTheme {
  buildNavigation(project) {
    const documents = new Map(project.documents.map((document) => [document.name, document]));
    const entryOf = ({ name, title }) => {
      const document = documents.get(name.replace('/', '_')) ?? documents.get(name);
      return { text: title, path: this.router.getFullUrl(document), kind: ReflectionKind.Document };
    };
    const menu = groups().map(({ title, pages }) => ({
      text: title,
      children: (pages[0].name === 'course/README' ? coursePages() : pages).map(entryOf),
    }));
    const entries = super.buildNavigation(project).filter(({ kind }) => kind === ReflectionKind.Module);
    return [...menu, { text: 'Reference', children: entries }];
  }
}

/** `adapters/ai-sdk` -> `heed/ai-sdk`. */
const entryName = (name) => (name === 'index' ? 'heed' : `heed/${name.replace(/^adapters\//, '')}`);

/** The comment of an option in one line, with its name. */
function optionLine(option) {
  const link = { kind: 'inline-tag', tag: '@link', text: `\`${option.name}\``, target: option };
  const summary = option.comment?.summary ?? option.signatures?.[0]?.comment?.summary ?? [];
  const separator = summary.length > 0 ? ': ' : '';
  const needed = option.flags.isOptional ? '' : ' (required)';
  return [text('\n- '), link, text(`${needed}${separator}`), ...summary.map(inOneLine)];
}
const text = (value) => ({ kind: 'text', text: value });
const inOneLine = (part) => ({ ...part, text: part.text.replace(/\s*\n\s*/g, ' ') });

/** Constructors of a type: of `new (options: O) => Made`, and of `LayerClass<Made, O>`, which stands for it. */
function constructorOf(type) {
  if (type?.type === 'reference' && type.name === 'LayerClass') {
    const [made, options] = type.typeArguments;
    const given = options.type === 'union' ? options.types.find((each) => each.type === 'reference') : options;
    return { made, options: given, isOptional: options.type === 'union' };
  }
  const signature = type?.type === 'reflection' ? type.declaration.signatures?.[0] : undefined;
  const options = signature?.parameters?.at(-1);
  return options && { made: signature.type, options: options.type, isOptional: options.flags.isOptional };
}

/** Adds to each class that `load()` returns how it is made, and its options. */
function addConstructors(project) {
  for (const member of project.getReflectionsByKind(ReflectionKind.Property)) {
    if (member.parent?.name !== 'Heed') continue;
    const { made, options, isOptional } = constructorOf(member.type) ?? {};
    const page = made?.reflection;
    if (!page?.comment || options?.reflection === undefined) continue;
    const parts = [
      text(
        `\n\n**Constructor:** \`new heed.${member.name}(${isOptional ? '[' : ''}options${isOptional ? ']' : ''})\`. The options are those of `,
      ),
      { kind: 'inline-tag', tag: '@link', text: options.name, target: options.reflection },
      text(':\n'),
      ...(options.reflection.children ?? []).flatMap(optionLine),
      text('\n'),
    ];
    page.comment.summary.push(...parts);
  }
}

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.renderer.defineTheme('heed', Theme);
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const entry of project.getChildrenByKind(ReflectionKind.Module)) entry.name = entryName(entry.name);
  });
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => addConstructors(project), -1000);
}
