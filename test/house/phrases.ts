import { codePaths, paths, proseLines, textOf } from './source-files.ts'

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
]

/** Right uses of a phrase: the file, and a part of the line. */
const exceptions: readonly (readonly [path: string, part: string])[] = [
  ['services/broker/streams/scenario-under-test.ts', 'p goes on'],
  ['services/payments/domain/testing/history-under-test.ts', 'nothing to expire'],
  ['services/ratelimit/rules/validate.ts', 'has so many entries'],
  ['test/support/postgres-server.ts', 'as `nobody`'],
]

type Line = readonly [number: number, text: string]

/** Returns each line of a comment that has a phrase of the list, as `path:line: text`. */
export function commentsWithPhrases(): readonly string[] {
  return codePaths.flatMap(path => withPhrase(path, commentsOf(path)))
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

function proseOf(path: string): readonly Line[] {
  return proseLines(path).map((line, index) => [index + 1, line.replaceAll(/`[^`]*`/g, '')] as const)
}

function withPhrase(path: string, lines: readonly Line[]): readonly string[] {
  return lines.flatMap(([number, line]) => {
    const isException = exceptions.some(([file, part]) => file === path && line.includes(part))
    const found = !isException && phrases.some(phrase => phrase.test(line))
    return found ? [`${path}:${number}: ${line.trim()}`] : []
  })
}
