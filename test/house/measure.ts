import { dirname } from 'node:path'
import {
  commentsWithPhrases,
  fragmentComments,
  pagesWithPhrases,
  testTextsWithPhrases,
  textsWithPhrases,
} from './phrases.ts'
import { codePaths, functionLengths, isTest, textOf } from './source-files.ts'

/**
 * `node test/house/measure.ts` prints measures of the code base as a table of Markdown: sizes of folders and
 * functions, statements, and comments and pages with a phrase that docs/glossary.md and CONTRIBUTING.md
 * discourage. `--list` prints the places as well.
 */
const list = process.argv.includes('--list')
const maxLines = 70
const production = codePaths.filter(path => !isTest(path) && !path.startsWith('examples/'))

function folderSizes(): readonly (readonly [string, number])[] {
  const sizes = new Map<string, number>()
  for (const path of production) sizes.set(dirname(path), (sizes.get(dirname(path)) ?? 0) + 1)
  return [...sizes].sort((a, b) => b[1] - a[1])
}

/** Returns each function of more than 70 lines, the functions inside it included. */
function longClosures(path: string): readonly string[] {
  return functionLengths(path).flatMap(({ line, lines }) =>
    lines > maxLines ? [`${path}:${line} (${lines})`] : [],
  )
}

/** Returns an approximation that the formatter makes comparable: lines that end or open a statement. */
function statements(path: string): number {
  return textOf(path)
    .split('\n')
    .filter(line => /^\s*(const|let|return|throw|if|for|while|switch|await|[\w.#[\]]+ [-+*|&]?= )/.test(line))
    .length
}

const sizes = folderSizes()
const large = sizes.filter(([, count]) => count > 15)
const closures = production.flatMap(longClosures)
const comments = commentsWithPhrases()
const pages = pagesWithPhrases()
const texts = textsWithPhrases()
const testTexts = testTextsWithPhrases()
const fragments = fragmentComments()

const rows: readonly (readonly [string, string | number, string])[] = [
  ['largest folder (production files)', `${sizes[0]?.[1]} (${sizes[0]?.[0]})`, '15'],
  ['folders with more than 15 production files', large.length, '0'],
  ['functions above 70 lines, with those inside them', closures.length, '≤ 15'],
  ['production files', production.length, ''],
  [
    'statements of production code, by lines',
    production.reduce((sum, path) => sum + statements(path), 0),
    '−6 %',
  ],
  ['lines of comments with a phrase of the list', comments.length, '0'],
  ['lines of pages with a phrase of the list', pages.length, '0'],
  ['texts for users with a phrase of the list', texts.length, '0'],
  ['titles and texts of tests with a phrase of the list', testTexts.length, '0'],
  ['comments that begin with a preposition, as fragments', fragments.length, '0'],
]
process.stdout.write('| Measure | Now | Goal |\n| --- | --- | --- |\n')
for (const row of rows) process.stdout.write(`| ${row.join(' | ')} |\n`)
if (list) {
  for (const [folder, count] of large) process.stdout.write(`${folder}: ${count} files\n`)
  for (const line of [...closures, ...comments, ...pages, ...texts, ...testTexts, ...fragments])
    process.stdout.write(`${line}\n`)
}
