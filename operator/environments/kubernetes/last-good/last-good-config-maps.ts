import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { objectName } from '../../../workloads/cluster-names.ts'
import type { KubeClient } from '../api/client.ts'
import { coreResource, type KubeObject } from '../api/kube-object.ts'
import { lastGoodObjectNames } from '../api/permissions.ts'
import { type Installation, labelNames } from '../infrastructure/objects/installation.ts'
import type { ObjectData } from './last-good-layout.ts'

export interface LastGoodConfigMapsOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>
  readonly installation: Installation
  /** The plural of the kind: `ratelimitconfigs`. */
  readonly plural: string
  /** Called after a failed read or write with the error and the delay before the next attempt. */
  readonly onError: (error: unknown, retryMs: number) => void
  readonly random: () => number
}

const configMaps = coreResource('configmaps')
const kindLabel = `${apiGroup}/last-good`

const readRetries = { initialMs: 100, maxMs: 5_000, factor: 2, jitter: 0.5 } as const

/**
 * Reads and writes the ConfigMaps with the last good contents of one kind. Remembers the version of each one
 * for the next write.
 */
export class LastGoodConfigMaps {
  readonly names: readonly string[]
  readonly #options: LastGoodConfigMapsOptions
  readonly #stopping = new AbortController()
  #versions = new Map<string, KubeObject['metadata']>()

  constructor(options: LastGoodConfigMapsOptions) {
    this.#options = options
    this.names = lastGoodObjectNames(options.plural).map(name => objectName(options.installation.name, name))
  }

  stop(): void {
    this.#stopping.abort()
  }

  /** Resolves with the data of each existing ConfigMap, by its name. */
  async read(): Promise<ReadonlyMap<string, ObjectData>> {
    const found = await Promise.all(this.names.map(name => this.#readObject(name)))
    const existing = found.flatMap(object => object ?? [])
    this.#versions = new Map(existing.map(({ metadata }) => [metadata.name, metadata]))
    return new Map(
      existing.map(({ metadata, binaryData }) => [metadata.name, (binaryData ?? {}) as ObjectData]),
    )
  }

  /** Writes the data of one ConfigMap; deletes the ConfigMap if the data is empty. */
  async write(name: string, data: ObjectData): Promise<void> {
    const { client } = this.#options
    if (Object.keys(data).length === 0) return this.#delete(name)
    const object = this.#toObject(name, data)
    const isKnown = this.#versions.has(name)
    const { metadata } = await (isKnown
      ? client.replace(configMaps, object)
      : client.create(configMaps, object))
    this.#versions.set(name, metadata)
  }

  async #delete(name: string): Promise<void> {
    const { client, installation } = this.#options
    const { uid, resourceVersion } = this.#versions.get(name) ?? {}
    if (uid && resourceVersion) {
      await client.delete(configMaps, { namespace: installation.namespace, name, uid, resourceVersion })
    }
    this.#versions.delete(name)
  }

  /**
   * Repeats a failed read of one object alone. If all were read again together, a round in which none fails
   * would be rare.
   */
  async #readObject(name: string): Promise<KubeObject | undefined> {
    const { client, installation, onError, random } = this.#options
    const { signal } = this.#stopping
    const backoff = createBackoff({ ...readRetries, random })
    for (;;) {
      try {
        return await client.get(configMaps, { namespace: installation.namespace, name })
      } catch (error) {
        if (signal.aborted) throw error
        const retryMs = backoff.nextMs()
        onError(error, retryMs)
        await pause(retryMs, undefined, { signal })
      }
    }
  }

  #toObject(name: string, data: ObjectData): KubeObject {
    const { installation, plural } = this.#options
    const labels = {
      [labelNames.instance]: installation.name,
      [labelNames.managedBy]: 'tollway',
      [labelNames.partOf]: 'tollway',
      [kindLabel]: plural,
    }
    const { resourceVersion, uid } = this.#versions.get(name) ?? {}
    return {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name,
        namespace: installation.namespace,
        labels,
        ownerReferences: [installation.owner],
        ...(uid && { uid }),
        ...(resourceVersion && { resourceVersion }),
      },
      binaryData: data,
    }
  }
}
