import {
  defineScalarTag,
  FAILSAFE_SCHEMA,
  loadAll,
  mergeTag,
  NOT_RESOLVED,
  nullCoreTag,
  realMapTag,
  YAMLException,
} from 'js-yaml'
import { reasonNotToParse } from './yaml-size.ts'

/** Lists and maps inside each other; a level of descriptors is two of them. */
export const maxNestingDepth = 200
export const maxAliases = 100_000
/** Values that a document may have through its aliases beyond those it would have without. */
export const maxAliasedValues = 100_000
/** Keys that a document may take over by `<<` altogether. */
export const maxMergedKeys = 100_000

/**
 * What a YAML file says. Scalars other than text and null keep how they were written, because a number where
 * a text is asked for means its own spelling: `value: 0x10` is "0x10".
 */
export type YamlValue = null | string | YamlScalar | readonly YamlValue[] | YamlMap
export type YamlMap = ReadonlyMap<YamlValue, YamlValue>
export type YamlScalar =
  | { readonly type: 'int' | 'float'; readonly text: string; readonly value: number }
  | { readonly type: 'bool'; readonly text: string; readonly value: boolean }

/**
 * Reads the first document of a YAML text; an empty text is null. `ignored` tells of further documents, which
 * the reference does not look at. An error says why in one line, with the line it is about. Never throws, and
 * hostile aliases, merges and nesting are refused before they cost anything.
 */
export function readYaml(
  text: string,
): { readonly document: YamlValue; readonly ignored: number } | { readonly error: string } {
  const reason = reasonNotToParse(text)
  if (reason !== undefined) return { error: reason }
  try {
    const [document = null, ...others] = loadDocuments(text)
    const error = checkValues(document, text.length + maxAliasedValues)
    if (error !== undefined) return { error }
    return { document, ignored: others.filter(other => other !== null).length }
  } catch (error) {
    return { error: reasonOf(error) }
  }
}

/** What stands too far left is put right, one line a time; so many characters may be read again for it. */
export const maxRereadCharacters = 2_000_000

/**
 * A list or a map in brackets, or a text in quotes, may go on anywhere on its next line, as the reference and
 * nearly everybody else reads it; the parser wants it farther right than what it belongs to. Spaces there mean
 * nothing, so they are added where it says so.
 */
function loadDocuments(text: string): YamlValue[] {
  let source = text
  for (let left = maxRereadCharacters; ; left -= source.length) {
    try {
      return loadAll(source, { schema, ...limits }) as YamlValue[]
    } catch (error) {
      const line =
        error instanceof YAMLException && error.reason === tooFarLeft ? error.mark?.line : undefined
      if (line === undefined || source.length > left) throw error
      source = indentLine(source, line)
    }
  }
}

const tooFarLeft = 'deficient indentation'
/** More than any line that is laid out by hand; a line that stands farther right takes another round. */
const indentation = ' '.repeat(80)

/** @param line from 0 */
function indentLine(text: string, line: number): string {
  const ends = /\r\n?|\n/g
  for (let left = line; left > 0; left--) ends.exec(text)
  return text.slice(0, ends.lastIndex) + indentation + text.slice(ends.lastIndex)
}

function reasonOf(error: unknown): string {
  if (!(error instanceof YAMLException)) return error instanceof Error ? error.message : String(error)
  return error.mark === undefined ? error.reason : `line ${error.mark.line + 1}: ${error.reason}`
}

const limits = { maxDepth: maxNestingDepth, maxTotalMergeKeys: maxMergedKeys, maxAliases }

/**
 * Each value of a text without aliases takes a character, so only aliases can reach a limit above its length.
 * The parser's own limit of depth knows neither them nor the map in `[a: b]`.
 */
function checkValues(document: YamlValue, limit: number): string | undefined {
  let left = limit
  const check = (value: YamlValue, depth: number): string | undefined => {
    left -= 1
    if (left < 0) return `aliases make the document larger than ${maxAliasedValues} values`
    if (depth > maxNestingDepth) {
      return `lists and maps are nested more than ${maxNestingDepth} deep, or contain themselves`
    }
    if (isList(value)) return firstError(value, depth)
    return isMap(value) ? (firstError(value.keys(), depth) ?? firstError(value.values(), depth)) : undefined
  }
  const firstError = (values: Iterable<YamlValue>, depth: number): string | undefined => {
    for (const value of values) {
      const error = check(value, depth + 1)
      if (error !== undefined) return error
    }
    return undefined
  }
  return check(document, 0)
}

export function isList(value: YamlValue): value is readonly YamlValue[] {
  return Array.isArray(value)
}

export function isMap(value: YamlValue): value is YamlMap {
  return value instanceof Map
}

const signedDigits = ['-', '+', ...'0123456789']
const integer = /^[-+]?(?:0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)$/
const float = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/
const special = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/

/** Go's whole numbers have 64 bits; what is beyond is a float to it. */
const maxInteger = 2 ** 63

/** `_` may stand anywhere between digits, except in a number that begins with its point. */
function plainDigits(text: string): string {
  return text.startsWith('.') ? text : text.replaceAll('_', '')
}

/** A 0 in front means octal digits, as in YAML 1.1. */
function readInteger(digits: string): number {
  const unsigned = digits.replace(/^[-+]/, '').replace(/^0(?=[0-7])/, '0o')
  return digits.startsWith('-') ? -Number(unsigned) : Number(unsigned)
}

const intTag = defineScalarTag<YamlScalar>('tag:yaml.org,2002:int', {
  implicit: true,
  implicitFirstChars: signedDigits,
  identify: () => false,
  resolve: text => {
    const digits = plainDigits(text)
    const value = integer.test(digits) ? readInteger(digits) : Number.NaN
    return Math.abs(value) <= maxInteger ? { type: 'int', text, value } : NOT_RESOLVED
  },
})

const floatTag = defineScalarTag<YamlScalar>('tag:yaml.org,2002:float', {
  implicit: true,
  implicitFirstChars: [...signedDigits, '.'],
  identify: () => false,
  resolve: text => {
    if (special.test(text)) return { type: 'float', text, value: Number.NaN }
    const digits = plainDigits(text)
    const value = integer.test(digits) ? readInteger(digits) : Number(digits)
    // To Go a number that is too large is no number, but a text.
    const isFloat = (integer.test(digits) || float.test(digits)) && Number.isFinite(value)
    return isFloat ? { type: 'float', text, value } : NOT_RESOLVED
  },
})

const booleans = [/^(?:true|True|TRUE)$/, /^(?:false|False|FALSE)$/] as const
/** Those of YAML 1.1, for what is marked as a boolean. */
const allBooleans = [
  /^(?:true|True|TRUE|y|Y|yes|Yes|YES|on|On|ON)$/,
  /^(?:false|False|FALSE|n|N|no|No|NO|off|Off|OFF)$/,
] as const

const boolTag = defineScalarTag<YamlScalar>('tag:yaml.org,2002:bool', {
  implicit: true,
  implicitFirstChars: [...'tTfF'],
  identify: () => false,
  resolve: (text, isExplicit) => {
    const [yes, no] = isExplicit ? allBooleans : booleans
    if (yes.test(text)) return { type: 'bool', text, value: true }
    return no.test(text) ? { type: 'bool', text, value: false } : NOT_RESOLVED
  },
})

/** YAML 1.2's core, with YAML 1.1's `<<`, as the reference reads it; no tag can name anything else. */
const schema = FAILSAFE_SCHEMA.withTags(nullCoreTag, boolTag, intTag, floatTag, mergeTag, realMapTag)
