import type { Feed } from './feed.ts'
import { createSnapshot, type Resource } from './snapshot.ts'

/** Encodes the contents of one kind as resources of the feed. */
export interface ContentCodec<Fed> {
  readonly typeUrl: string
  encode(fed: Fed): Resource
}

/** The feed of the contents of one kind. */
export interface ContentFeed<Fed> {
  /** Encodes a content before its publication, which is short then. A content is encoded once. */
  encode(content: Fed): void
  /** Publishes these contents, and no others of the kind. Throws as `Feed.publish` does. */
  publish(contents: readonly Fed[]): void
  /** Returns for any content which of these clients enforce it exactly, and which rejected it. */
  enforcement(uids: readonly string[]): (content: Fed) => ContentEnforcement
}

export interface ContentEnforcement {
  readonly acknowledged: ReadonlySet<string>
  readonly rejections: readonly { readonly pod: string; readonly message: string }[]
  /** Clients that do not get the content, with the features that they lack. */
  readonly lacking: readonly { readonly uid: string; readonly features: readonly string[] }[]
}

/** Creates a feed that encodes no content twice, and publishes no list twice in a row. */
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
