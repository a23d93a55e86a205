import { CORE_SCHEMA, load, mergeTag, YAMLException } from 'js-yaml'

/**
 * The schema of manifests, for the console, commands and the operator: the core schema of YAML 1.2, in which
 * only `true` and `false` are booleans and a date is a text, with the merge key, which `kubectl` accepts too.
 */
export const manifestSchema = CORE_SCHEMA.withTags(mergeTag)

export type ReadYaml =
  | { readonly value: unknown }
  | { readonly message: string; readonly line: number | undefined }

/** Reads one document. A mistake has the number of its line, from 1, if the parser knows it. */
export function readYaml(text: string): ReadYaml {
  try {
    return { value: load(text, { schema: manifestSchema }) }
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const at = error.mark?.line
    return { message: error.reason, line: at === undefined ? undefined : at + 1 }
  }
}
