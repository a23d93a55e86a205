import { readFileSync } from 'node:fs'
import { type ClusterConfig, validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { CORE_SCHEMA, load, YAMLException } from 'js-yaml'
import { formatProblem } from '../../kinds/kind-adapter.ts'
import { validateServiceSettings } from '../../workloads/registry.ts'

/** The maximum size of the file in characters, more than any list of grants needs. */
const maxBytes = 1024 * 1024

/** Returns the configuration in a file, or its problems, one in each line. No problem quotes a secret. */
export function readClusterConfig(
  path: string,
): { readonly value: ClusterConfig } | { readonly problems: readonly string[] } {
  let found: unknown
  try {
    const text = readFileSync(path, 'utf8')
    if (text.length > maxBytes)
      return { problems: [`has ${text.length} characters; at most ${maxBytes} are allowed`] }
    found = load(text, { schema: CORE_SCHEMA }) ?? {}
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!(error instanceof YAMLException)) return { problems: [code === 'ENOENT' ? 'no such file' : message] }
    const line = error.mark === undefined ? '' : `line ${error.mark.line + 1}: `
    return { problems: [`${line}${error.reason}`] }
  }
  const validated = validateClusterConfig(found)
  if ('problems' in validated) return { problems: validated.problems.map(formatProblem) }
  const problems = validateServiceSettings(validated.value)
  return problems.length > 0 ? { problems } : validated
}
