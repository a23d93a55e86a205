import { CORE_SCHEMA, load, mergeTag, YAMLException } from 'js-yaml'
import { checkExpanded, yamlLimits } from './yaml-limits.ts'

/**
 * The schema of manifests, for the console, commands and the operator: the core schema of YAML 1.2, in which
 * only `true` and `false` are booleans and a date is a text, with the merge key, which `kubectl` accepts too.
 */
export const manifestSchema = CORE_SCHEMA.withTags(mergeTag)

export type ReadYaml =
  | { readonly value: unknown }
  | { readonly message: string; readonly line: number | undefined }

/**
 * Reads one document within `yamlLimits`. A mistake has the number of its line, from 1, if the parser knows
 * it.
 */
export function readYaml(text: string): ReadYaml {
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
