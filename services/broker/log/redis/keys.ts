/**
 * The names of what the brokers share. All of one installation have the same hash tag, so that a script may
 * look at a request and at the directory in one step; a Redis Cluster keeps all of them on one of its nodes.
 *
 * Every key has an expiry. What a broker that is gone leaves behind goes by itself.
 */
export interface RedisKeys {
  /**
   * Hash, the directory: key of a request -> what is filed of it (see `FiledRequest`), of those that run and
   * of those that ended and are still kept. Brokers read all of it when they connect, and now and then.
   */
  readonly requests: string
  /** Hash: the three ids of a running request -> its key. Refuses a second producer of the same ids. */
  readonly running: string
  /** String: the last epoch that was given to a request; see `openScript`. */
  readonly epoch: string
  /** Stream: each change of the directory. Every broker waits for its next entry. */
  readonly news: string
  /** Stream of one request: its entries, see `entryId`. */
  entries(request: string): string
  /** String of one request: the bytes of its header, which outlives the trimming of its entries. */
  header(request: string): string
  /**
   * Hash of one request that may be continued: `owner` counts the brokers that its producer had before,
   * `token` and `previous` are hashes of its resume tokens, `uses` counts their uses, `progress` belongs to
   * the last entry.
   */
  producer(request: string): string
  /** String of one broker: counts up while the broker lives. */
  heartbeat(podId: string): string
  /** Stream of one broker: what it alone is told, for example how far the readers of its requests are. */
  inbox(podId: string): string
  /** Never there: for commands that must change nothing. */
  readonly probe: string
  /** String: pushes of this request of this stream are refused while it is there. */
  interrupted(streamId: string, requestId: string): string
}

/** @param prefix tells installations apart that share a Redis */
export function redisKeys(prefix: string): RedisKeys {
  const tag = `{${prefix}:broker}`
  return {
    requests: `${tag}:requests`,
    running: `${tag}:running`,
    epoch: `${tag}:epoch`,
    news: `${tag}:news`,
    probe: `${tag}:probe`,
    entries: request => `${tag}:entries:${request}`,
    header: request => `${tag}:header:${request}`,
    producer: request => `${tag}:producer:${request}`,
    heartbeat: podId => `${tag}:heartbeat:${podId}`,
    inbox: podId => `${tag}:inbox:${podId}`,
    interrupted: (streamId, requestId) => `${tag}:interrupted:${JSON.stringify([streamId, requestId])}`,
  }
}

/**
 * In place of the position in the id of the end: the greatest, so that Redis refuses whatever comes after it.
 */
const endPosition = '18446744073709551615'

/**
 * The id of an entry in the stream of its request: `<epoch>-<position>`. Positions are the same in all
 * brokers, so a consumer can go on at any of them.
 */
export function entryId(epoch: number, position: number): string {
  return `${epoch}-${position}`
}

export function endId(epoch: number): string {
  return `${epoch}-${endPosition}`
}

/** The position in an id; undefined for that of the end. */
export function positionOf(id: string): number | undefined {
  const position = id.slice(id.indexOf('-') + 1)
  return position === endPosition ? undefined : Number(position)
}
