import type { SettingProblem } from '@tollway/chassis/settings.ts'
import { compilePattern, expandTemplate } from './pattern.ts'

/**
 * A rule that derives another name and tags from the name of a statistic. In the name and the tags, `$1`,
 * `$2`, … stand for the groups of the pattern.
 */
export interface Mogrifier {
  readonly pattern: RegExp
  readonly name: string
  readonly tags: ReadonlyMap<string, string>
}

const prefixes = ['AGENTSTATS_MOGRIFIER_', 'DOG_STATSD_MOGRIFIER_']

/**
 * Reads AGENTSTATS_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS, or their DOG_STATSD_ aliases, for each of the
 * names, in order. The messages are those of envoyproxy/ratelimit.
 */
export function readMogrifiers(
  names: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): { readonly value: readonly Mogrifier[] } | { readonly problems: readonly SettingProblem[] } {
  const problems: SettingProblem[] = []
  const value = names.flatMap(name => readMogrifier(name, env, problems) ?? [])
  return problems.length > 0 ? { problems } : { value }
}

function readMogrifier(
  mogrifier: string,
  env: Readonly<Record<string, string | undefined>>,
  problems: SettingProblem[],
): Mogrifier | undefined {
  const before = problems.length
  const reject = (part: string, message: string) =>
    problems.push({ name: `${prefixes[0]}${mogrifier}_${part}`, message })
  const read = (part: string) => {
    const [first = '', second = first] = prefixes
      .map(prefix => env[`${prefix}${mogrifier}_${part}`] || undefined)
      .filter(text => text !== undefined)
    if (first !== second)
      reject(part, `its alias ${prefixes[1]}${mogrifier}_${part} has another value; keep one`)
    return first
  }
  const text = read('PATTERN')
  const name = read('NAME')
  const tags = readTags(mogrifier, read('TAGS'), message => reject('TAGS', message))
  if (text === '') reject('PATTERN', `no PATTERN specified for mogrifier ${mogrifier}`)
  if (name === '') reject('NAME', `no NAME specified for mogrifier ${mogrifier}`)
  const compiled = compilePattern(text)
  if ('pattern' in compiled && problems.length === before) return { pattern: compiled.pattern, name, tags }
  if ('error' in compiled) {
    reject('PATTERN', `failed to compile pattern for ${mogrifier}: ${text}: ${compiled.error}`)
  }
  return undefined
}

function readTags(mogrifier: string, text: string, reject: (message: string) => void) {
  const tags = new Map<string, string>()
  for (const pair of text === '' ? [] : text.split(',')) {
    const colon = pair.indexOf(':')
    const tag = colon < 0 ? pair.trim() : pair.slice(0, colon).trim()
    const value = colon < 0 ? '' : pair.slice(colon + 1).trim()
    if (tag === '') reject(`no key specified for tag ${tag} for mogrifier ${mogrifier}`)
    else if (value === '') reject(`no value specified for tag ${tag} for mogrifier ${mogrifier}`)
    tags.set(tag, value)
  }
  return tags
}

/**
 * Applies the first mogrifier whose pattern matches the name; without a match the name is unchanged and has
 * no tags. A `$n` without a group stays unchanged, as in envoyproxy/ratelimit.
 */
export function mogrify(
  mogrifiers: readonly Mogrifier[],
  statName: string,
): { readonly name: string; readonly tags: readonly (readonly [string, string])[] } {
  for (const { pattern, name, tags } of mogrifiers) {
    const groups = pattern.exec(statName)
    if (groups === null) continue
    const expand = (template: string) => expandTemplate(template, groups, whole => whole)
    return { name: expand(name), tags: [...tags].map(([tag, value]) => [tag, expand(value)] as const) }
  }
  return { name: statName, tags: [] }
}
