import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import type { Translation } from '../translate/translate-rate-limit-config.ts'
import { type Gathered, nameOf } from './choose-contents.ts'
import { isRateLimitConfig } from './known-kinds.ts'
import type { Memory } from './remembered.ts'

export interface Sighting {
  /** Of any kind. */
  readonly resources: readonly SourcedResource[]
  /** See `Source.unread`. */
  readonly unread: readonly SourceProblem[]
  readonly memories: ReadonlyMap<string, Memory>
  /** Since when that is there of which nothing is remembered. */
  readonly nowMs: number
}

/**
 * Every RateLimitConfig that there is, with what it says and what is remembered of it, in the order of the
 * names; and those that were in force and may stand in something that cannot be read now. A source keeps what
 * it has seen of them; after a restart it has seen nothing, and only what is remembered keeps their limits from
 * being switched off.
 */
export function gather(
  { resources, unread, memories, nowMs }: Sighting,
  translate: (resource: SourcedResource) => Translation,
): readonly Gathered[] {
  const present = resources.filter(isRateLimitConfig).map((resource): Gathered => {
    const firstSeenMs = resource.createdMs ?? nowMs
    const memory = memories.get(resource.uid) ?? { firstSeenMs, origin: resource.origin }
    return resource.paused
      ? heldAsItWas(resource, memory)
      : { resource, memory, translation: translate(resource) }
  })
  const uids = new Set(present.map(({ resource }) => resource.uid))
  const hidden = [...memories].filter(([uid]) => !uids.has(uid))
  const all = [...present, ...hidden.flatMap(([uid, memory]) => hiddenResource(uid, memory, unread) ?? [])]
  return all.sort((a, b) => (nameOf(a.resource) < nameOf(b.resource) ? -1 : 1))
}

/** What is in force of a paused resource counts as what it says, whatever it says by now. */
function heldAsItWas(resource: SourcedResource, memory: Memory): Gathered {
  const { lastGood, lastGoodGeneration = 0 } = memory
  const translation: Translation =
    lastGood === undefined
      ? {
          problems: [
            { path: 'metadata.annotations', message: 'it is paused, and nothing of it is in force' },
          ],
        }
      : { value: lastGood, warnings: [] }
  return { resource: { ...resource, generation: lastGoodGeneration }, memory, translation }
}

function hiddenResource(uid: string, memory: Memory, unread: readonly SourceProblem[]): Gathered | undefined {
  const { lastGood, origin } = memory
  const own = unread.find(problem => fileOf(problem.origin) === fileOf(origin))
  const hiding = own ?? unread[0]
  if (lastGood === undefined || hiding === undefined) return undefined
  const [namespace = '', name = ''] = lastGood.name.split('/')
  const resource = {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    namespace,
    name,
    uid,
    generation: 0,
    paused: false,
    spec: undefined,
    origin,
  }
  const what = own
    ? 'the resource cannot be read'
    : 'the resource is not here any more, and may stand elsewhere'
  const message = `${what}: ${hiding.origin}: ${hiding.message}`
  return { resource, memory, translation: { problems: [{ path: '', message }] } }
}

/** `shop/limits.yaml#2.items[0]` stands in the file `shop/limits.yaml`. */
function fileOf(origin: string): string {
  return origin.replace(/#\d+(\.items\[\d+\])?$/, '')
}
