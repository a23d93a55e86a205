import { createRequire } from 'node:module'
import type { RE2JS } from 're2js'

/** A compiled regular expression. Its time is linear in the length of a text. */
export type Regex = RE2JS

/** At most this many regular expressions on one level, since a call can be compared with each of them. */
export const maxRegexesOfLevel = 16
/** At most this many in one domain, because each takes up to `maxMemoryBytes`. */
export const maxRegexesOfDomain = 256
/** The size of a compiled expression: `[a-z]{1,100}` has about 200 instructions. */
const maxInstructions = 1000
/** The memory in which an expression keeps the states that texts have led to. */
const maxMemoryBytes = 256 * 1024
/**
 * Longer texts match no expression, which bounds the time of a call. Envoy accepts 60 KiB for all headers of
 * a request.
 */
const maxTextLength = 65_536

/**
 * Returns the engine. It takes 1 MiB and some 10 ms, so that a process loads it with its first expression.
 * Bundles have a `require` that contains the package; sources have none.
 */
const loadEngine = (): typeof import('re2js') =>
  typeof require === 'undefined' ? createRequire(import.meta.url)('re2js') : require('re2js')

/** Compiles an expression that `findRegexProblem` accepts. */
export function compileRegex(pattern: string): Regex {
  const regex = loadEngine().RE2JS.compile(pattern)
  const { dfa } = regex.re2() as unknown as {
    readonly dfa: Record<'maxMem' | 'stateBudget' | 'memBudget', number>
  }
  dfa.maxMem = dfa.stateBudget = dfa.memBudget = maxMemoryBytes
  return regex
}

/** Returns whether the expression matches the whole text, as Envoy's `safe_regex` does. */
export function matchesRegex(regex: Regex, text: string): boolean {
  return text.length <= maxTextLength && regex.testExact(text)
}

/** Returns why the engine of RE2 rejects an expression, and where; undefined for a valid one. */
export function findRegexProblem(
  pattern: string,
): { readonly problem: string; readonly allowed: string } | undefined {
  const tried = tryCompile(pattern)
  if (!('error' in tried)) {
    const size = tried.programSize()
    if (size <= maxInstructions) return undefined
    return {
      problem: `the expression is compiled to ${size} instructions`,
      allowed: `at most ${maxInstructions}: repeat less`,
    }
  }
  const position = findPosition(pattern, tried)
  return {
    problem: `${tried.error} at character ${position}`,
    allowed: 'the syntax of RE2, which has no back references and no look-around',
  }
}

/** An error of the engine, with the part of the expression that it is about. */
interface SyntaxProblem {
  readonly error: string
  readonly input: string | null
}

function tryCompile(pattern: string): Regex | SyntaxProblem {
  const { RE2JS, RE2JSException } = loadEngine()
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    const { error: reason = error.message, input = null } = error as Partial<SyntaxProblem> & Error
    return { error: reason, input }
  }
}

/**
 * Returns the number of the character at which an expression is wrong. The engine tells only the wrong part,
 * which may occur before as well; so this looks for the shortest beginning that is wrong in the same way.
 */
function findPosition(pattern: string, { error, input }: SyntaxProblem): number {
  const lengths = Array.from({ length: pattern.length + 1 }, (_, length) => length)
  const isWhole = input === null || input === pattern
  if (isWhole)
    return (lengths.findLast(length => !('error' in tryCompile(pattern.slice(0, length)))) ?? 0) + 1
  const end = lengths.find(length => {
    const tried = tryCompile(pattern.slice(0, length))
    return 'error' in tried && tried.error === error && tried.input === input
  })
  return (end ?? pattern.length) - input.length + 1
}
