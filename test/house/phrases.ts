import { codePaths, isTest, paths, proseLines, textOf } from './source-files.ts'

/** Phrases that comments and pages avoid, because they hide the subject or the verb of a sentence. */
const phrases: readonly RegExp[] = [
  /\b(told|tells?)\b/,
  /\bwhoever\b/i,
  /\b(some|no)body\b/i,
  /\bso (long|many)\b/i,
  /\bof ours\b/,
  /\bmakes? true\b/,
  /\ba thing of its own\b/,
  /\b(is|are) nothing to\b/,
  /\bsees to it\b/i,
  /\bstood there\b/,
  /\b(lives|dies|speaks)\b/,
  /(?:^|[.;:] |\* |\/\/ )What (?:is|was|are|were|it|they|has|have)\b/,
  /\bbrings? about\b/,
  /\bgoes on\b/,
  /\bof itself\b/,
  /\bin peace\b/,
  /\bstands?\b(?! (in )?for)/,
  /\bholds true\b/,
  /\blooks (at|into) (it|what)\b/,
]

/** Texts for users also say "is not a number" instead of "is no number". */
const textPhrases: readonly RegExp[] = [
  ...phrases,
  /(?<!there )\b(is|are|was|were) no (?!longer|more|such)[\w-]+/i,
  /\bholds for\b/,
]

/** Titles and messages of tests also name their subject before anything else. */
const testPhrases: readonly RegExp[] = [
  ...textPhrases,
  /\b(any|every)body\b/i,
  /^.(what|who|whose|whatever) (?!.*\?)/i,
]

/** Right uses of a phrase: the file, and a part of the line. */
const exceptions: readonly (readonly [path: string, part: string])[] = [
  ['operator/environments/kubernetes/infrastructure/is-superset.test.ts', 'a superset of itself'],
  ['services/broker/streams/testing/scenario-under-test.ts', 'p goes on'],
  ['services/payments/domain/testing/history-under-test.ts', 'nothing to expire'],
  ['services/payments/storage/delivery/stored-journal.ts', 'test_processor_events'],
  ['services/ratelimit/rules/validate.ts', 'has so many entries'],
  ['test/support/postgres-server.ts', 'as `nobody`'],
]

/** A string with a blank. A template with a string inside a value of it is read in parts. */
const quotedText = /'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g

const prepositions =
  'About Above After Among As At Before Behind Below Beside Besides Between Beyond By During Except For From In ' +
  'Inside Instead Into Like Of On Outside Over Per Since Than Through To Under Until Via With Within Without'

/** "At most" and "at least" belong to the subject. */
const preposition = new RegExp(`^(${prepositions.replaceAll(' ', '|')}|So that)\\b(?! (most|least)\\b)`)

/** A phrase before the subject, which a comma ends: "After a conflict, the next check reads it." */
const introduction =
  /^[^.,:;]+, (?!(also|and|as|but|by|for|in|of|or|so|such|unless|which|whose|with)\b)\S+ \S+ \S+/

type Line = readonly [number: number, text: string]

/** Returns each line of a comment that has a phrase of the list, as `path:line: text`. */
export function commentsWithPhrases(): readonly string[] {
  return codePaths.flatMap(path => withPhrase(path, commentsOf(path)))
}

/** Returns each line of production code with a text for users that has a phrase of the list. */
export function textsWithPhrases(): readonly string[] {
  const production = codePaths.filter(path => !isTest(path))
  return production.flatMap(path => withPhrase(path, quotedTextsOf(path), textPhrases))
}

/** Returns each line of a test with a title or another text that has a phrase of the list. */
export function testTextsWithPhrases(): readonly string[] {
  const tests = codePaths.filter(path => isTest(path) && path !== 'test/house/phrases.ts')
  return tests.flatMap(path => withPhrase(path, quotedTextsOf(path), testPhrases))
}

/** Returns each comment that begins with a preposition, and whose first sentence is a fragment by that. */
export function fragmentComments(): readonly string[] {
  return codePaths.flatMap(path =>
    commentBlocksOf(path).flatMap(([number, comment]) => {
      const [sentence = ''] = comment.split(/(?<=[.;]) (?=[A-Z])/, 1)
      const isFragment = preposition.test(sentence) && !introduction.test(sentence)
      return isFragment ? [`${path}:${number}: ${sentence}`] : []
    }),
  )
}

/** Returns each line of a page that has a phrase of the list. The changelog keeps its old entries. */
export function pagesWithPhrases(): readonly string[] {
  const pages = paths.filter(path => path.endsWith('.md') && path !== 'CHANGELOG.md')
  return pages.flatMap(path => withPhrase(path, proseOf(path)))
}

function commentsOf(path: string): readonly Line[] {
  const lines = textOf(path).split('\n')
  return lines
    .map((line, index) => [index + 1, line] as const)
    .filter(([, line]) => /^\s*(\/\/|\/\*|\*)/.test(line))
}

/** Returns each comment with its first line and its text without marks. */
function commentBlocksOf(path: string): readonly Line[] {
  const text = textOf(path)
  return [...text.matchAll(/^ *(\/\*[\s\S]*?\*\/|\/\/.*(?:\n *\/\/.*)*)/gm)].map(
    ({ index, 1: comment = '' }) => [
      text.slice(0, index).split('\n').length,
      comment
        .replaceAll(/^ *(\/\*\*?|\*\/|\*|\/\/)|\*\/$/gm, '')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    ],
  )
}

function quotedTextsOf(path: string): readonly Line[] {
  const comment = /^\s*(\/\/|\/\*|\*)/
  return textOf(path)
    .split('\n')
    .flatMap((line, index) => {
      const texts = comment.test(line) ? [] : (line.match(quotedText) ?? [])
      return texts
        .map(withoutValues)
        .filter(text => text.includes(' '))
        .map(text => [index + 1, text] as const)
    })
}

const withoutValues = (template: string) => template.replaceAll(/\$\{[^}]*\}/g, '…')

function proseOf(path: string): readonly Line[] {
  return proseLines(path).map((line, index) => [index + 1, line.replaceAll(/`[^`]*`/g, '')] as const)
}

function withPhrase(path: string, lines: readonly Line[], list = phrases): readonly string[] {
  return lines.flatMap(([number, line]) => {
    const isException = exceptions.some(([file, part]) => file === path && line.includes(part))
    const found = !isException && list.some(phrase => phrase.test(line))
    return found ? [`${path}:${number}: ${line.trim()}`] : []
  })
}
