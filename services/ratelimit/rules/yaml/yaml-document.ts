import { isList } from '@tollway/chassis/json.ts'
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
import { findSizeProblem } from './yaml-size.ts'

/** Lists and maps can be nested at most this many levels deep. A level of descriptors takes two of them. */
const maxNestingDepth = 200
const maxAliases = 100_000
/** With aliases, a document may have this many more values than its text has characters. */
const maxAliasedValues = 100_000
/** A document may merge at most this many keys by `<<` in total. */
const maxMergedKeys = 100_000

/**
 * The content of a YAML file. Scalars other than text and null keep their spelling, because a number in a
 * text field means its spelling: `value: 0x10` is "0x10".
 */
export type YamlValue = null | string | YamlScalar | readonly YamlValue[] | YamlMap
export type YamlMap = ReadonlyMap<YamlValue, YamlValue>
type YamlScalar =
  | { readonly type: 'int' | 'float'; readonly text: string; readonly value: number }
  | { readonly type: 'bool'; readonly text: string; readonly value: boolean }

/**
 * Parses the first document of a YAML text; an empty text is null. `ignored` is the number of further
 * documents, which envoyproxy/ratelimit does not read either. An error is one line with the reason and its
 * line number. Never throws; hostile aliases, merges and nesting are rejected before they take resources.
 */
export function parseYamlDocument(
  text: string,
): { readonly document: YamlValue; readonly ignored: number } | { readonly error: string } {
  const reason = findSizeProblem(text)
  if (reason !== undefined) return { error: reason }
  try {
    const [document = null, ...others] = loadDocuments(text)
    const error = checkValues(document, text.length + maxAliasedValues)
    if (error !== undefined) return { error }
    return { document, ignored: others.filter(other => other !== null).length }
  } catch (error) {
    return { error: describeError(error) }
  }
}

/**
 * `loadDocuments` adds indentation to one line at a time, and parses the text again after each. It parses at
 * most this many characters again.
 */
const maxRereadCharacters = 2_000_000

/**
 * Loads all documents of a text. For envoyproxy/ratelimit and most parsers, a list or a map in brackets, or a
 * quoted text, may continue at any column of the next line; js-yaml requires more indentation than the parent
 * has. Spaces there have no meaning, so they are added to each line for which js-yaml reports an error.
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
/**
 * The spaces that are added to a line. They are more than people write; a line that needs more gets them
 * again.
 */
const indentation = ' '.repeat(80)

/** @param line from 0 */
function indentLine(text: string, line: number): string {
  const ends = /\r\n?|\n/g
  for (let left = line; left > 0; left--) ends.exec(text)
  return text.slice(0, ends.lastIndex) + indentation + text.slice(ends.lastIndex)
}

function describeError(error: unknown): string {
  if (!(error instanceof YAMLException)) return error instanceof Error ? error.message : String(error)
  return error.mark === undefined ? error.reason : `line ${error.mark.line + 1}: ${error.reason}`
}

const limits = { maxDepth: maxNestingDepth, maxTotalMergeKeys: maxMergedKeys, maxAliases }

/**
 * Returns an error if the document has more than `limit` values or is nested too deep. Each value of a text
 * without aliases takes a character, so only aliases can reach a limit above the length of the text. The
 * depth limit of js-yaml ignores aliases and the map in `[a: b]`.
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

export function isMap(value: YamlValue): value is YamlMap {
  return value instanceof Map
}

const signedDigits = ['-', '+', ...'0123456789']
const integer = /^[-+]?(?:0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)$/
const float = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/
const special = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/

/** An integer of Go has 64 bits. A number beyond this is a float. */
const maxInteger = 2 ** 63

/**
 * Removes `_`, which may occur anywhere between digits, except in a number that begins with its decimal
 * point.
 */
function plainDigits(text: string): string {
  return text.startsWith('.') ? text : text.replaceAll('_', '')
}

/** Returns the value of an integer. A leading 0 means octal digits, as in YAML 1.1. */
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
    // Go treats a number that is too large as text.
    const isFloat = (integer.test(digits) || float.test(digits)) && Number.isFinite(value)
    return isFloat ? { type: 'float', text, value } : NOT_RESOLVED
  },
})

const booleans = [/^(?:true|True|TRUE)$/, /^(?:false|False|FALSE)$/] as const
/** The booleans of YAML 1.1, for values with a boolean tag. */
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

/**
 * The core schema of YAML 1.2 with the `<<` of YAML 1.1, as envoyproxy/ratelimit reads it. Other tags are
 * unknown.
 */
const schema = FAILSAFE_SCHEMA.withTags(nullCoreTag, boolTag, intTag, floatTag, mergeTag, realMapTag)
