import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import type { DiscoveryRequest, DiscoveryResponse } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { createSnapshot, type Resource } from '../../../operator/xds/snapshot.ts'
import type { Response } from '../../../operator/xds/stream.ts'
import type { Defect } from '../engine/world.ts'
import type { FeedParts } from './feed-world.ts'

type Requests = AsyncIterable<DiscoveryRequest>
type Responses = AsyncIterable<Response>

/** Returns the methods with another handler of streams. */
function withHandler(
  methods: readonly AnyMethod[],
  handle: (requests: Requests, call: Call, next: (requests: Requests) => Responses) => Responses,
): readonly AnyMethod[] {
  return methods.map(method => {
    if (method.kind !== 'bidi') return method
    const next = method.handle
    return {
      ...method,
      handle: (requests: Requests, call: Call) => handle(requests, call, changed => next(changed, call)),
    }
  })
}

async function* mapEach<T>(items: AsyncIterable<T>, map: (item: T) => T): AsyncGenerator<T> {
  for await (const item of items) yield map(item)
}

/** Returns the client with other answers to its calls. */
function withMessages(
  client: GrpcClient,
  change: (messages: AsyncIterable<DiscoveryResponse>) => AsyncIterable<DiscoveryResponse>,
): GrpcClient {
  return {
    ...client,
    bidi(path, codec, options) {
      const call = client.bidi(path, codec, options)
      const messages = change(call.messages as AsyncIterable<DiscoveryResponse>) as typeof call.messages
      return { ...call, messages }
    },
  }
}

const noResponses: readonly Resource[] = []

export const feedDefects: readonly Defect<FeedParts>[] = [
  {
    name: 'empty-start',
    summary: 'an operator publishes an empty snapshot before it has read the resources',
    plant: ({ publish }) => ({ onStart: feed => publish(feed, noResponses) }),
  },
  {
    name: 'edit-in-parts',
    summary: 'an operator publishes each resource of an edit on its own',
    plant: ({ publish }) => {
      const before = new WeakMap<object, Map<string, Resource>>()
      return {
        publish(feed, resources) {
          const published = before.get(feed) ?? new Map<string, Resource>()
          before.set(feed, published)
          for (const resource of resources) {
            published.set(resource.name, resource)
            publish(feed, [...published.values()])
          }
          const names = new Set(resources.map(({ name }) => name))
          for (const name of published.keys()) if (!names.has(name)) published.delete(name)
          publish(feed, resources)
        },
      }
    },
  },
  {
    name: 'lost-publish',
    summary: 'an operator drops an edit that follows another one within 200 ms, instead of delaying it',
    plant: ({ publish }) => {
      const last = new WeakMap<object, number>()
      return {
        publish(feed, resources) {
          const nowMs = performance.now()
          const isSoon = nowMs - (last.get(feed) ?? Number.NEGATIVE_INFINITY) < 200
          last.set(feed, nowMs)
          if (!isSoon) publish(feed, resources)
        },
      }
    },
  },
  {
    name: 'partial-load',
    summary: 'a pod loads the valid resources of a response, and acknowledges all of them',
    plant: ({ subscribe }) => ({
      subscribe(configuration) {
        const right = subscribe(configuration)
        return {
          ...right,
          async load(response, hashes) {
            const problems = await right.load(response, hashes)
            const isBad = (index: number) => problems.some(problem => problem.startsWith(`d${index + 1}:`))
            if (problems.length === 0) return problems
            const resources = response.resources.filter((_, index) => !isBad(index))
            const kept = hashes.filter((_, index) => !isBad(index))
            await right.load({ ...response, resources }, kept)
            return []
          },
        }
      },
    }),
  },
  {
    name: 'early-acknowledgement',
    summary: 'a pod acknowledges a response before it has loaded it',
    plant: ({ subscribe }) => ({
      subscribe(configuration) {
        const right = subscribe(configuration)
        let last: Promise<unknown> = Promise.resolve()
        return {
          ...right,
          async load(response, hashes) {
            last = last
              .then(() => new Promise(resolve => setTimeout(resolve, 5)))
              .then(() => right.load(response, hashes))
            return []
          },
        }
      },
    }),
  },
  {
    name: 'deaf-client',
    summary: 'a pod does not notice that its stream has failed',
    plant: ({ connect }) => ({
      connect: client =>
        withMessages(connect(client), async function* (messages) {
          try {
            yield* messages
          } catch {
            await new Promise(() => {})
          }
        }),
    }),
  },
  {
    name: 'lost-rejection',
    summary: 'an operator takes a rejection for an acknowledgement',
    plant: ({ serve }) => ({
      serve: (methods, feed) =>
        withHandler(serve(methods, feed), (requests, _, next) => {
          const versions = new Map<string, string>()
          const changed = mapEach(requests, ({ errorDetail: _detail, ...request }) => {
            const versionInfo = versions.get(request.responseNonce) ?? request.versionInfo
            return { ...request, versionInfo }
          })
          return mapEach(next(changed), response => {
            versions.set(response.nonce, response.snapshot.version)
            return response
          })
        }),
    }),
  },
  {
    name: 'repeated-rejected-version',
    summary: 'an operator answers a rejection with the response that was rejected',
    plant: ({ serve }) => ({
      serve: (methods, feed) =>
        withHandler(serve(methods, feed), async function* (requests, _, next) {
          let last: Response | undefined
          let isRejected = false
          const watched = mapEach(requests, request => {
            isRejected = request.errorDetail !== undefined
            return request
          })
          for await (const response of next(watched)) {
            if (isRejected && last) yield last
            isRejected = false
            last = response
            yield response
          }
        }),
    }),
  },
  {
    name: 'old-life',
    summary: 'an operator keeps the acknowledgements of a pod that was started again',
    plant: ({ serve }) => {
      const versions = new Map<string, string>()
      return {
        serve: (methods, feed) =>
          withHandler(serve(methods, feed), (requests, _, next) =>
            next(
              mapEach(requests, request => {
                const uid = `${request.node?.metadata?.['uid']}`
                if (request.versionInfo !== '') versions.set(uid, request.versionInfo)
                return { ...request, versionInfo: request.versionInfo || (versions.get(uid) ?? '') }
              }),
            ),
          ),
      }
    },
  },
  {
    name: 'shared-encoding',
    summary:
      'an operator sends the encoding of the last snapshot with as many resources, as of another stream',
    plant: ({ serve }) => ({
      serve(methods, feed) {
        const bySize = new Map<number, Response['snapshot']>()
        return withHandler(serve(methods, feed), (requests, _, next) =>
          mapEach(next(requests), response => {
            const { snapshot } = response
            const known = bySize.get(snapshot.resources.size)
            const published = feed.published(snapshot.typeUrl)
            if (known === undefined || published === snapshot) bySize.set(snapshot.resources.size, snapshot)
            if (known === undefined || published === snapshot) return response
            const wrong = createSnapshot(snapshot.typeUrl, known.resources.values())
            return { ...response, snapshot: { ...wrong, version: snapshot.version } }
          }),
        )
      },
    }),
  },
  {
    name: 'stale-operator',
    summary: 'an operator serves an older state of the resources after its second read',
    plant: ({ publish }) => {
      const reads = new WeakMap<object, (readonly Resource[])[]>()
      return {
        publish(feed, resources) {
          const all = reads.get(feed) ?? []
          reads.set(feed, [...all, resources])
          publish(feed, all.length < 2 ? resources : (all.at(-1) ?? resources))
        },
      }
    },
  },
]
