import { load, YAMLException } from 'js-yaml'

export type ReadYaml =
  | { readonly value: unknown }
  | { readonly message: string; readonly line: number | undefined }

/** Reads one document. A mistake has the number of its line, from 1, if the parser knows it. */
export function readYaml(text: string): ReadYaml {
  try {
    return { value: load(text) }
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const at = error.mark?.line
    return { message: error.reason, line: at === undefined ? undefined : at + 1 }
  }
}
