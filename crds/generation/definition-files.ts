import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { dump } from 'js-yaml'
import { apiGroup } from '../resource-kind.ts'
import { resourceKinds } from '../resource-kinds.ts'
import { admissionPolicy } from './admission-policy.ts'
import { customResourceDefinition } from './definition.ts'

interface DefinitionFile {
  readonly name: string
  readonly text: string
}

/**
 * The annotation with the version of Tollway that made a definition. The chart never replaces a definition by
 * one of an older version.
 */
export const versionAnnotation = `${apiGroup}/version`

export function definitionFiles(): readonly DefinitionFile[] {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
  const file = (name: string, objects: readonly JsonObject[]) => ({
    name,
    text: toYaml(objects.map(object => withVersion(object, version))),
  })
  const definitions = resourceKinds.map(kind =>
    file(`${apiGroup}_${kind.plural}.yaml`, [customResourceDefinition(kind)]),
  )
  return [...definitions, file('admission-policy.yaml', admissionPolicy())]
}

function withVersion(object: JsonObject, version: string): JsonObject {
  const metadata = object['metadata'] as JsonObject
  return { ...object, metadata: { ...metadata, annotations: { [versionAnnotation]: version } } }
}

function toYaml(objects: readonly JsonObject[]): string {
  const documents = objects.map(object => dump(object, { noRefs: true, lineWidth: 110 }))
  return `# Made by crds/generate.ts from crds/; change the schema there.\n${documents.join('---\n')}`
}
