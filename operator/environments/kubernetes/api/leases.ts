import { isObject } from '@tollway/chassis/is-object.ts'
import type { Lease, LeaseAccess } from '../../../controller/lease-elector.ts'
import type { KubeClient } from './client.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'

const leaseResource: ApiResource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  namespaced: true,
}
const watchSeconds = 600
const envelope = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' }

/** Returns the access of an elector to the Lease of this name. */
export function leaseAccess(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'watch'>,
  key: { readonly namespace: string; readonly name: string },
  ownerReferences?: readonly unknown[],
): LeaseAccess {
  // An update sets the owner too, because an earlier version named another one.
  const owned = ownerReferences === undefined ? {} : { ownerReferences }
  return {
    async get(signal) {
      const found = await client.get(leaseResource, key, { signal })
      return found === undefined ? undefined : toLease(found)
    },
    async create(spec, signal) {
      const object = { ...envelope, metadata: { ...key, ...owned }, spec }
      return toLease(await client.create(leaseResource, object, { signal }))
    },
    async update({ metadata }, spec, signal) {
      const object = { ...envelope, metadata: { ...metadata, ...owned }, spec }
      return toLease(await client.replace(leaseResource, object, { signal }))
    },
    async *watch({ metadata }, signal) {
      const events = client.watch(leaseResource, {
        namespace: key.namespace,
        fieldSelector: `metadata.name=${key.name}`,
        resourceVersion: `${metadata['resourceVersion']}`,
        timeoutSeconds: watchSeconds,
        signal,
      })
      for await (const { type, object } of events) {
        if (type !== 'BOOKMARK') yield type === 'DELETED' ? undefined : toLease(object)
      }
    },
  }
}

function toLease({ metadata, spec }: KubeObject): Lease {
  return { metadata, spec: isObject(spec) ? spec : {} }
}
