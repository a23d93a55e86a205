import { dump } from 'js-yaml'
import { apiGroup } from '../resource-kind.ts'
import { resourceKinds } from '../resource-kinds.ts'
import type { JsonObject } from '../schema.ts'
import { admissionPolicy } from './admission-policy.ts'
import { customResourceDefinition } from './definition.ts'

export interface DefinitionFile {
  /** `tollway.dev_ratelimitconfigs.yaml`. */
  readonly name: string
  readonly text: string
}

/** The definition of each kind, and the admission policy, as the files that users apply. */
export function definitionFiles(): readonly DefinitionFile[] {
  const definitions = resourceKinds.map(kind => ({
    name: `${apiGroup}_${kind.plural}.yaml`,
    text: toYaml([customResourceDefinition(kind)]),
  }))
  return [...definitions, { name: 'admission-policy.yaml', text: toYaml(admissionPolicy()) }]
}

function toYaml(objects: readonly JsonObject[]): string {
  const documents = objects.map(object => dump(object, { noRefs: true, lineWidth: 110 }))
  return `# Made by crds/generate.ts from crds/; change the schema there.\n${documents.join('---\n')}`
}
