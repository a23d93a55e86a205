import { apiGroup, apiVersion } from '@tollway/crds/resource-kind.ts'
import type { KubeClient } from './client.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'

export type CustomResource = ApiResource & { readonly kind: string }

export function customResource({ kind, plural }: { kind: string; plural: string }): CustomResource {
  return { group: apiGroup, version: 'v1alpha1', plural, namespaced: true, kind }
}

/**
 * Writes the whole status of a resource. Rejects with 409 if the resource has changed since it was read, or
 * was replaced by another one.
 */
export function applyWholeStatus(
  client: Pick<KubeClient, 'applyStatus'>,
  resource: CustomResource,
  { metadata }: { readonly metadata: KubeObject['metadata'] },
  status: object,
): Promise<KubeObject> {
  const { namespace, name, uid, resourceVersion } = metadata
  const object = {
    apiVersion,
    kind: resource.kind,
    metadata: {
      name,
      ...(namespace && { namespace }),
      ...(uid && { uid }),
      ...(resourceVersion && { resourceVersion }),
    },
    status,
  }
  return client.applyStatus(resource, object, { force: true })
}
