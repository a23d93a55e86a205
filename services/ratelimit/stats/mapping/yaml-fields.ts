import { isList } from '@tollway/chassis/json.ts'
import { type Findings, fieldPath } from '../../rules/findings/findings.ts'
import { isMap, type YamlMap, type YamlValue } from '../../rules/yaml/yaml-document.ts'

/** A value of a file, and its path. */
export interface Found {
  readonly findings: Findings
  /** The name of the file in problems. */
  readonly source: string
  readonly path: string
  readonly value: YamlValue
}

/** The fields of one map. A missing or invalid field is treated as left out; an invalid one is reported. */
export interface Fields {
  has(field: string): boolean
  /** A number or a boolean means its spelling. */
  text(field: string): string
  number(field: string): number | undefined
  numbers(field: string): readonly number[] | undefined
  word<const Word extends string>(field: string, words: readonly Word[]): Word | undefined
  /** A map of texts. */
  texts(field: string): ReadonlyMap<string, string>
  below(field: string): Found
  /** The items of a list, which may have at most `max`. */
  list<T>(field: string, max: number, read: (item: Found) => readonly T[]): readonly T[]
  problem(field: string, message: string, allowed: string): void
  warn(field: string, message: string, allowed: string): void
  /** Warns about a field that has no effect, unless it is written as one of these. */
  warnUnless(field: string, written: readonly string[], message: string): void
}

/** Reads a map with only known keys; null is an empty one. */
export function readFields(found: Found, known: readonly string[]): Fields {
  const map = mapOf(found)
  for (const key of map.keys()) {
    if (typeof key === 'string' && known.includes(key)) continue
    problemAt(below(found, map, shown(key)), 'unknown key', `one of ${known.join(', ')}`)
  }
  const at = (field: string) => below(found, map, field)
  const textOf = (field: string) => readText(at(field)) ?? ''
  return {
    has: field => at(field).value !== null,
    text: textOf,
    number: field => readNumber(at(field)),
    numbers: field => readNumbers(at(field)),
    word(field, words) {
      const text = textOf(field)
      const word = words.find(each => each === text)
      if (word === undefined && text !== '') {
        problemAt(at(field), `'${text}' is not supported`, words.join(', '))
      }
      return word
    },
    texts(field) {
      const texts = mapOf(at(field))
      const items = [...texts.keys()].map(shown)
      return new Map(items.map(key => [key, readText(below(at(field), texts, key)) ?? '']))
    },
    below: at,
    list: (field, max, read) => readItems(at(field), max).flatMap(read),
    problem: (field, message, allowed) => problemAt(at(field), message, allowed),
    warn: (field, message, allowed) => warnAt(at(field), message, allowed),
    warnUnless(field, written, message) {
      const text = textOf(field)
      if (text === '' || written.includes(text)) return
      warnAt(at(field), `has no effect: ${message}`, written.join(', '))
    },
  }
}

function below(found: Found, map: YamlMap, field: string): Found {
  return { ...found, path: fieldPath(found.path, field), value: map.get(field) ?? null }
}

function problemAt({ findings, source, path }: Found, message: string, allowed: string): void {
  findings.problem(source, path, message, allowed)
}

function warnAt({ findings, source, path }: Found, message: string, allowed: string): void {
  findings.warn(source, path, message, allowed)
}

function refuse(found: Found, allowed: string): undefined {
  problemAt(found, `cannot be ${shown(found.value)}`, allowed)
  return undefined
}

function mapOf(found: Found): YamlMap {
  if (isMap(found.value)) return found.value
  if (found.value !== null) refuse(found, 'a map')
  return new Map()
}

function readText(found: Found): string | undefined {
  const { value } = found
  if (value === null || typeof value === 'string') return value ?? undefined
  return isMap(value) || isList(value) ? refuse(found, 'a text') : value.text
}

function readNumber(found: Found): number | undefined {
  if (found.value === null) return undefined
  return numberOf(found.value) ?? refuse(found, 'a number')
}

function readNumbers(found: Found): readonly number[] | undefined {
  const { value } = found
  if (value === null) return undefined
  const numbers = isList(value) ? value.map(numberOf) : [undefined]
  return numbers.every(number => number !== undefined) ? numbers : refuse(found, 'a list of numbers')
}

function readItems(found: Found, max: number): readonly Found[] {
  const { path, value } = found
  if (value !== null && !isList(value)) refuse(found, 'a list of maps')
  const items = value !== null && isList(value) ? value : []
  if (items.length > max) problemAt(found, `has ${items.length} items`, `at most ${max}`)
  return items.slice(0, max).map((item, index) => ({ ...found, path: `${path}[${index}]`, value: item }))
}

function numberOf(value: YamlValue): number | undefined {
  if (value === null || typeof value === 'string' || isMap(value) || isList(value)) return undefined
  return value.type !== 'bool' && Number.isFinite(value.value) ? value.value : undefined
}

/** Formats a value for messages, and a key as written. */
function shown(value: YamlValue): string {
  if (value === null) return 'null'
  if (isMap(value)) return 'a map'
  if (isList(value)) return 'a list'
  return typeof value === 'string' ? value : value.text
}
