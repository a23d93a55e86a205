import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { readAnnotations, type SourcedResource } from '../../kinds/source.ts'
import type { KubeObject } from './api/kube-object.ts'

export function toSourcedResource(kind: string, { metadata, spec }: KubeObject): SourcedResource {
  const { name, namespace = '', uid = '', generation = 0, annotations } = metadata
  const createdMs = Date.parse(`${metadata['creationTimestamp']}`)
  return {
    apiVersion,
    kind,
    namespace,
    name,
    uid,
    generation,
    ...readAnnotations(annotations),
    spec,
    origin: `${namespace}/${name}`,
    ...(Number.isNaN(createdMs) ? {} : { createdMs }),
  }
}
