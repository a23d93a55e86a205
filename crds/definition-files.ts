import { dump } from 'js-yaml'
import { customResourceDefinition } from './definition.ts'
import { rateLimitConfigKind } from './rate-limit-config.ts'
import { apiGroup, type ResourceKind } from './resource-kind.ts'

const kinds: readonly ResourceKind[] = [rateLimitConfigKind]

export interface DefinitionFile {
  /** `tollway.dev_ratelimitconfigs.yaml`. */
  readonly name: string
  readonly text: string
}

/** The definition of each kind as the file that users apply. The same on every run. */
export function definitionFiles(): readonly DefinitionFile[] {
  return kinds.map(kind => ({
    name: `${apiGroup}_${kind.plural}.yaml`,
    text: `# Made by crds/generate.ts from crds/; change the schema there.\n${toYaml(kind)}`,
  }))
}

function toYaml(kind: ResourceKind): string {
  return dump(customResourceDefinition(kind), { noRefs: true, lineWidth: 110 })
}
