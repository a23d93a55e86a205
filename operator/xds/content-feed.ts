import type { Feed } from './server.ts'
import { createSnapshot, type Resource } from './snapshot.ts'

/** How contents of one kind become resources of the feed. */
export interface ContentCodec<Fed> {
  readonly typeUrl: string
  encode(fed: Fed): Resource
}

/** The feed in terms of one kind's contents. */
export interface ContentFeed<Fed> {
  /** Every content that shall be in force; all others of the kind end. Throws as `Feed.publish` does. */
  publish(contents: readonly Fed[]): void
  /** Which of these clients enforce exactly this content, and which refused it. */
  enforcement(
    content: Fed,
    uids: readonly string[],
  ): {
    readonly acknowledged: ReadonlySet<string>
    readonly refusals: readonly { readonly pod: string; readonly message: string }[]
  }
}

/** The same object is not encoded twice. */
export function createContentFeed<Fed extends object>(
  feed: Pick<Feed, 'publish' | 'enforcement'>,
  { typeUrl, encode }: ContentCodec<Fed>,
): ContentFeed<Fed> {
  const encoded = new WeakMap<Fed, Resource>()

  function encodeOnce(content: Fed): Resource {
    const known = encoded.get(content)
    if (known) return known
    const resource = encode(content)
    encoded.set(content, resource)
    return resource
  }

  return {
    publish(contents) {
      feed.publish(createSnapshot(typeUrl, contents.map(encodeOnce)))
    },
    enforcement: (content, uids) => feed.enforcement(typeUrl, encodeOnce(content), uids),
  }
}
