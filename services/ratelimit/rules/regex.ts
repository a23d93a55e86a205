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
  const parsed = tryParse(pattern)
  if ('error' in parsed) {
    const index = findPosition(pattern, parsed)
    const place = index === undefined ? '' : ` at character ${[...pattern.slice(0, index)].length + 1}`
    return {
      problem: `${parsed.error}${place}`,
      allowed: 'the syntax of RE2, which has no back references and no look-around',
    }
  }
  // An expression of 768 characters can have 742,000 instructions, whose compilation takes a second. The number
  // of nodes is at least half of the number of instructions, and at most twice.
  const nodes = countNodes(parsed)
  if (2 * nodes < maxInstructions) return undefined
  const isCompiled = nodes <= 2 * maxInstructions
  const size = isCompiled ? loadEngine().RE2JS.compile(pattern).programSize() : undefined
  if (size !== undefined && size <= maxInstructions) return undefined
  return {
    problem: `the expression is compiled to ${size ?? `more than ${maxInstructions}`} instructions`,
    allowed: `at most ${maxInstructions}: repeat less`,
  }
}

/** A node of the engine's tree of an expression, in which repetitions are written out. */
interface Node {
  readonly op: number
  readonly subs: readonly Node[]
  readonly runes: readonly number[]
}

/** An error of the engine, with the part of the expression that it is about. */
interface SyntaxProblem {
  readonly error: string
  readonly part: string | null
}

function parse(pattern: string): Node {
  const { RE2Set } = loadEngine()
  const set = new RE2Set()
  set.add(pattern)
  return set.regexps[0]
}

function tryParse(pattern: string): Node | SyntaxProblem {
  try {
    return parse(pattern)
  } catch (error) {
    if (!(error instanceof loadEngine().RE2JSException)) throw error
    const { error: reason = error.message, input = null } = error as { error?: string; input?: string | null }
    return { error: reason, part: input }
  }
}

/** Returns the number of nodes and of characters of literals. The count ends when it is too large for certain. */
function countNodes(root: Node): number {
  const { op: literal } = parse('a')
  let count = 0
  function visit({ op, runes, subs }: Node): void {
    count += op === literal ? runes.length : 1
    for (const sub of subs) if (count <= 2 * maxInstructions) visit(sub)
  }
  visit(root)
  return count
}

/** Quoted texts, escaped characters, classes and parentheses. */
const tokens = /\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|[()]/gs
/** The wrong part of an expression is looked for at so many places. */
const maxPlaces = 16

/**
 * Returns the index at which an expression is wrong, if the engine tells a wrong part. The part may occur before
 * as well; so this looks for the shortest beginning that is wrong in the same way.
 */
function findPosition(pattern: string, { error, part }: SyntaxProblem): number | undefined {
  if (part === null) return undefined
  if (error.endsWith(')')) return findLoneParenthesis(pattern)
  let at = pattern.indexOf(part)
  for (let place = 0; place < maxPlaces && at >= 0; place++) {
    const tried = tryParse(pattern.slice(0, at + part.length))
    if ('error' in tried && tried.error === error && tried.part === part) return at
    at = pattern.indexOf(part, at + 1)
  }
  return pattern.lastIndexOf(part)
}

/** Returns the index of the first parenthesis without its counterpart. */
function findLoneParenthesis(pattern: string): number | undefined {
  const open: number[] = []
  for (const { 0: token, index } of pattern.matchAll(tokens)) {
    if (token === '(') open.push(index)
    else if (token === ')' && open.pop() === undefined) return index
  }
  return open[0]
}
