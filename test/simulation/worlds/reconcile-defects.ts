import type { KubeClient } from '../../../operator/environments/kubernetes/api/client.ts'
import type { KubeObject } from '../../../operator/environments/kubernetes/api/kube-object.ts'
import { Peers } from '../../../operator/leader/peers.ts'
import { createSnapshot } from '../../../operator/xds/snapshot.ts'
import type { Defect } from '../engine/world.ts'
import type { ReconcileParts } from './reconcile-world.ts'

type Watch = ReturnType<KubeClient['watch']>
type Events = (events: Watch) => Watch

/** Returns the client with other events of the resources, and not of the Lease. */
function withEvents(client: KubeClient, change: Events): KubeClient {
  return {
    ...client,
    watch: (resource, options) =>
      resource.plural === 'leases'
        ? client.watch(resource, options)
        : change(client.watch(resource, options)),
  }
}

class ForgetfulPeers extends Peers {
  #received = 0

  override async *receive(...[reports, call]: Parameters<Peers['receive']>): ReturnType<Peers['receive']> {
    const kept = async function* (this: ForgetfulPeers) {
      for await (const report of reports) {
        this.#received += 1
        if (this.#received % 4 !== 0) yield report
      }
    }
    yield* super.receive(kept.call(this), call)
  }
}

export const reconcileDefects: readonly Defect<ReconcileParts>[] = [
  {
    name: 'two-leaders',
    summary: 'an operator writes with the Lease and without it',
    plant: () => ({ mayWrite: () => true }),
  },
  {
    name: 'frozen-leadership',
    summary: 'an operator asks once a minute whether it still leads',
    plant: ({ mayWrite }) => {
      const asked = new WeakMap<object, { atMs: number; answer: boolean }>()
      return {
        mayWrite(leadership, process) {
          const nowMs = performance.now()
          const known = asked.get(leadership)
          if (known?.answer && nowMs - known.atMs < 60_000) return true
          const answer = mayWrite(leadership, process)
          asked.set(leadership, { atMs: nowMs, answer })
          return answer
        },
      }
    },
  },
  {
    name: 'stolen-lease',
    summary: 'an operator takes the Lease without its version, and so while another one renews it',
    plant: ({ connect }) => ({
      connect(client, process) {
        const right = connect(client, process)
        return {
          ...right,
          async get(resource, key, options) {
            const found = await right.get(resource, key, options)
            if (resource.plural !== 'leases' || found === undefined) return found
            return { ...found, spec: { ...(found['spec'] as object), leaseDurationSeconds: 1 } }
          },
        }
      },
    }),
  },
  {
    name: 'lost-event',
    summary: 'an operator drops every fifth event of a watch',
    plant: ({ connect }) => ({
      connect: (client, process) =>
        withEvents(connect(client, process), async function* (events) {
          let count = 0
          for await (const event of events) {
            count += 1
            if (count % 5 !== 0) yield event
          }
        }),
    }),
  },
  {
    name: 'lost-deletion',
    summary: 'an operator does not notice deletions',
    plant: ({ connect }) => ({
      connect: (client, process) =>
        withEvents(connect(client, process), async function* (events) {
          for await (const event of events) if (event.type !== 'DELETED') yield event
        }),
    }),
  },
  {
    name: 'silent-expiry',
    summary: 'an operator takes a watch that ends with 410 for one that ends in order',
    plant: ({ connect }) => ({
      connect: (client, process) =>
        withEvents(connect(client, process), async function* (events) {
          try {
            yield* events
          } catch (error) {
            if ((error as { code?: number }).code !== 410) throw error
          }
        }),
    }),
  },
  {
    name: 'ignored-conflict',
    summary: 'an operator takes a conflict for a write that succeeded',
    plant: ({ connect }) => ({
      connect(client, process) {
        const right = connect(client, process)
        return {
          ...right,
          async applyStatus(resource, object, options) {
            try {
              return await right.applyStatus(resource, object, options)
            } catch (error) {
              if ((error as { code?: number }).code !== 409) throw error
              const version = `${Number(object.metadata.resourceVersion ?? 0) + 1_000}`
              return { ...object, metadata: { ...object.metadata, resourceVersion: version } } as KubeObject
            }
          },
        }
      },
    }),
  },
  {
    name: 'no-last-good',
    summary: 'an operator starts without the last good versions',
    plant: ({ connect }) => ({
      connect(client, process) {
        const right = connect(client, process)
        return {
          ...right,
          get: async (resource, key, options) => {
            const found = await right.get(resource, key, options)
            return resource.plural === 'configmaps' ? undefined : found
          },
        }
      },
    }),
  },
  {
    name: 'own-choice',
    summary: 'an operator without the Lease reads only at its start what the leader has stored',
    plant: ({ connect, mayWrite }) => {
      const leading = new WeakSet<object>()
      return {
        mayWrite(leadership, process) {
          const answer = mayWrite(leadership, process)
          if (answer) leading.add(process)
          else leading.delete(process)
          return answer
        },
        connect(client, process) {
          const right = connect(client, process)
          const known = new Map<string, KubeObject | undefined>()
          return {
            ...right,
            async get(resource, key, options) {
              if (resource.plural !== 'configmaps') return right.get(resource, key, options)
              if (known.has(key.name) && !leading.has(process)) return known.get(key.name)
              const found = await right.get(resource, key, options)
              known.set(key.name, found)
              return found
            },
          }
        },
      }
    },
  },
  {
    name: 'first-page',
    summary: 'an operator takes the first page of a list for the whole list',
    plant: ({ connect }) => ({
      connect(client, process) {
        const right = connect(client, process)
        return {
          ...right,
          async list(resource, options) {
            const page = await right.list(resource, options)
            return { ...page, items: page.items.slice(0, 3) }
          },
        }
      },
    }),
  },
  {
    name: 'lost-report',
    summary: 'the leader loses every fourth report of acknowledgements',
    plant: () => ({ openPeers: options => new ForgetfulPeers(options) }),
  },
  {
    name: 'no-report',
    summary: 'an operator does not report the acknowledgements of its pods to the leader',
    plant: () => ({ report: () => async () => {} }),
  },
  {
    name: 'idle-leader',
    summary: 'a new leader does not compare the statuses that the last one has left',
    plant: () => ({ onStarted() {} }),
  },
  {
    name: 'empty-feed',
    summary: 'an operator empties its feed before it publishes a change',
    plant: ({ publish }) => ({
      publish(feed, snapshot) {
        publish(feed, createSnapshot(snapshot.typeUrl, []))
        publish(feed, snapshot)
      },
    }),
  },
]
