import type { Feed } from './server.ts'
import { createSnapshot, type Resource } from './snapshot.ts'

/** How contents of one kind become resources of the feed. */
export interface ContentCodec<Fed> {
  readonly typeUrl: string
  encode(fed: Fed): Resource
}

/** The feed in terms of one kind's contents. */
export interface ContentFeed<Fed> {
  /** Encodes a content ahead of its publication. A content is encoded once, and publication is short then. */
  encode(content: Fed): void
  /** Every content that shall be in force; all others of the kind end. Throws as `Feed.publish` does. */
  publish(contents: readonly Fed[]): void
  /** Says for any content which of these clients enforce exactly that now, and which refused it. */
  enforcement(uids: readonly string[]): (content: Fed) => ContentEnforcement
}

export interface ContentEnforcement {
  readonly acknowledged: ReadonlySet<string>
  readonly refusals: readonly { readonly pod: string; readonly message: string }[]
  /** Clients that do not get the content, with the features that they lack. */
  readonly lacking: readonly { readonly uid: string; readonly features: readonly string[] }[]
}

/** Neither the same content is encoded twice, nor the same list published twice. */
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

  let published: readonly Fed[] | undefined

  return {
    encode: content => void encodeOnce(content),
    publish(contents) {
      if (published !== undefined && isSameList(published, contents)) return
      feed.publish(createSnapshot(typeUrl, contents.map(encodeOnce)))
      published = contents
    },
    enforcement(uids) {
      const enforcementOf = feed.enforcement(typeUrl, uids)
      return content => enforcementOf(encodeOnce(content))
    },
  }
}

function isSameList<T>(one: readonly T[], other: readonly T[]): boolean {
  return one.length === other.length && one.every((item, index) => item === other[index])
}
