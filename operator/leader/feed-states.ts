import type { Feed } from '../xds/feed.ts'

/**
 * Which versions of the feed are enforced, and which contents are rejected. Every operator answers for the
 * pods of all operators.
 */
export interface FeedStates {
  /**
   * Resolves with the state of one type of the feed. Rejects with a `QueryError`.
   *
   * @param names the published resources whose rejections are returned
   */
  read(typeUrl: string, names: readonly string[]): Promise<FeedState>
}

interface FeedState {
  /** The published version; empty before the first one. */
  readonly version: string
  /** The number of pods that enforce each version; the version is empty for pods that enforce none. */
  readonly versions: readonly { readonly version: string; readonly pods: number }[]
  /** The rejections by the name of the resource. Resources that no pod rejects are left out. */
  readonly rejections: Readonly<Record<string, FeedRejections>>
}

export interface FeedRejections {
  readonly shown: readonly { readonly pod: string; readonly message: string }[]
  /** The number of rejections that `shown` leaves out. */
  readonly unlisted: number
}

/**
 * At most this many rejections of each resource are returned, and at most `maxRejectionsOfAnswer` in an
 * answer: 1,000 pods may reject each of 1,000 resources.
 */
const maxRejections = 100
const maxRejectionsOfAnswer = 1_000

/** Creates the answers from the streams of this operator and the reports of other operators to it. */
export function createFeedStates(
  feed: Pick<Feed, 'published' | 'podsByVersion' | 'enforcement'>,
): FeedStates {
  return {
    async read(typeUrl, names) {
      const { version = '', resources } = feed.published(typeUrl) ?? {}
      const enforcementOf = feed.enforcement(typeUrl, [])
      let left = maxRejectionsOfAnswer
      const rejections = names.flatMap(name => {
        const resource = resources?.get(name)
        const found = resource === undefined ? [] : enforcementOf(resource).rejections
        if (found.length === 0) return []
        const described = describe(found, Math.min(left, maxRejections))
        left -= described.shown.length
        return [[name, described] as const]
      })
      return {
        version,
        versions: Array.from(feed.podsByVersion(typeUrl), ([version, pods]) => ({
          version,
          pods: pods.size,
        })).sort((a, b) => (a.version < b.version ? -1 : 1)),
        rejections: Object.fromEntries(rejections),
      }
    },
  }
}

function describe(
  found: readonly { readonly pod: string; readonly message: string }[],
  most: number,
): FeedRejections {
  const shown = found.slice(0, most).map(({ pod, message }) => ({ pod, message }))
  return { shown, unlisted: found.length - shown.length }
}
