import { CORE_SCHEMA, load, mergeTag, YAMLException } from 'js-yaml'

/**
 * The schema of manifests, for the console, commands and the operator: the core schema of YAML 1.2, in which
 * only `true` and `false` are booleans and a date is a text, with the merge key, which `kubectl` accepts too.
 */
export const manifestSchema = CORE_SCHEMA.withTags(mergeTag)

type ReadYaml = { readonly value: unknown } | { readonly message: string; readonly line: number | undefined }

/**
 * Reads one document within `yamlLimits`. For invalid text it returns the message, and the line, counted from
 * 1, if the parser knows it.
 */
export function parseYamlDocument(text: string): ReadYaml {
  try {
    const value = load(text, { schema: manifestSchema, ...yamlLimits })
    checkExpanded(value, yamlLimits)
    return { value }
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const at = error.mark?.line
    return { message: error.reason, line: at === undefined ? undefined : at + 1 }
  }
}

/**
 * The limits of one YAML document. They bound the size with aliases replaced, since a few nested aliases can
 * stand for more than any memory can hold. Limits that the parser checks have the names of its options.
 */
export interface YamlLimits {
  /** The maximum number of aliases (`*name`). */
  readonly maxAliases: number
  /** The maximum depth of collections, with every alias replaced by the value of its anchor. */
  readonly maxDepth: number
  /**
   * The maximum number of characters of all keys and scalars, plus one for each node, with every alias
   * replaced.
   */
  readonly maxExpandedSize: number
  /** The maximum number of keys that merges (`<<`) add. */
  readonly maxTotalMergeKeys: number
}

export const yamlLimits: YamlLimits = {
  maxAliases: 100,
  maxDepth: 64,
  maxExpandedSize: 4_000_000,
  maxTotalMergeKeys: 1_000,
}

interface Measured {
  readonly size: number
  readonly depth: number
}

/**
 * Checks the depth and the size of a document with its aliases replaced. Each collection is visited once,
 * however many aliases name it, so that the check costs no more than parsing the text.
 *
 * @throws YAMLException without a position for a document that exceeds a limit
 */
export function checkExpanded(document: unknown, limits: Pick<YamlLimits, 'maxDepth' | 'maxExpandedSize'>) {
  const known = new Map<object, Measured | 'open'>()

  function measure(value: unknown, depth: number): Measured {
    if (typeof value !== 'object' || value === null) return { size: 1 + String(value).length, depth: 0 }
    let found = known.get(value)
    if (found === 'open') throw new YAMLException('an alias inside its own anchor is not allowed')
    if (found === undefined) {
      if (depth > limits.maxDepth) throw tooDeep(limits)
      known.set(value, 'open')
      found = { size: 1, depth: 1 }
      for (const [key, item] of Object.entries(value)) {
        const part = measure(item, depth + 1)
        found = { size: found.size + key.length + part.size, depth: Math.max(found.depth, 1 + part.depth) }
      }
      known.set(value, found)
    }
    if (depth + found.depth > limits.maxDepth) throw tooDeep(limits)
    if (found.size > limits.maxExpandedSize) {
      throw new YAMLException(
        `with its aliases written out the document has over ${limits.maxExpandedSize} characters, the maximum`,
      )
    }
    return found
  }

  measure(document, 0)
}

function tooDeep({ maxDepth }: Pick<YamlLimits, 'maxDepth'>): YAMLException {
  return new YAMLException(`nested deeper than the ${maxDepth} levels that are allowed`)
}
