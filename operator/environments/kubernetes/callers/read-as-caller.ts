import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { dump } from 'js-yaml'
import { ApiError } from '../../../api/api-error.ts'
import { versionOf } from '../../../api/manifest-version.ts'
import type { ManifestRequest, WrittenResource } from '../../../api/sources.ts'
import type { ApiAccess } from '../api/connection/access.ts'
import type { KubeClientOptions } from '../api/connection/caller.ts'
import { customResource } from '../api/custom-resources.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { asCaller } from './caller-client.ts'

/** `kubectl apply` stores the whole object in it. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * Returns a function that reads a resource with the token of the caller: without its status and without
 * fields that the API server sets. It rejects with an `ApiError` of the API server's status.
 */
export function readAsCaller(access: ApiAccess, options: KubeClientOptions) {
  return ({ kind, namespace, name, token, signal }: ManifestRequest): Promise<WrittenResource> =>
    asCaller(access, options, token, async client => {
      const known = resourceKinds.find(one => one.kind === kind)
      const found = known && (await client.get(customResource(known), { namespace, name }, { signal }))
      if (found !== undefined) return writtenResource(found)
      const message = `there is no ${kind} ${namespace}/${name}`
      throw new ApiError(404, 'not-found', message, { problems: [{ path: 'name', message }] })
    })
}

/** Returns the fields of an object that its author writes, as YAML with their version. */
export function writtenResource({ apiVersion, kind, metadata, ...content }: KubeObject): WrittenResource {
  const { namespace, name, labels, annotations } = metadata as KubeObject['metadata'] & {
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  const { [lastApplied]: _, ...own } = annotations ?? {}
  const written = {
    ...{ apiVersion, kind },
    metadata: {
      ...{ name, namespace },
      ...(labels && { labels }),
      ...(Object.keys(own).length > 0 && { annotations: own }),
    },
    spec: (content as { readonly spec?: unknown }).spec,
  }
  const manifest = dump(written, { noRefs: true, lineWidth: 100, skipInvalid: true })
  return { manifest, version: versionOf(manifest), origin: 'cluster' }
}
